#include "used.h"
