"""What do we know of this origin now?"""
