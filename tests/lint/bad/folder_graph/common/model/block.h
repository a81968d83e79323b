#pragma once
#include "tests/helper.h"
