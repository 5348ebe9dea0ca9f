"""May this request go now, later, or never?"""
