"""When may this host be asked again?"""
