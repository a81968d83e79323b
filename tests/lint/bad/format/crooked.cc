int  Crooked( ){return 1 ;}
