#include <boost/asio.hpp>
#include <curl/curl.h>
#include <fuse3/fuse_lowlevel.h>
#include <rocksdb/db.h>

#include "table.h"
