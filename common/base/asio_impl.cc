// Asio's definitions, compiled once for all programs (BOOST_ASIO_SEPARATE_COMPILATION).
#include <sys/epoll.h>

#include "common/base/exclusive_wait.h"

// Asio has no word for EPOLLEXCLUSIVE.
#define epoll_ctl ::forebay::ControlEpoll
#include <boost/asio/impl/src.hpp>
