#pragma once
#include <curl/curl.h>

#include "common/base/upward.h"
