#pragma once
#include "common/model/block.h"
