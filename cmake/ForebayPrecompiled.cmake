# What most sources include and no source changes, parsed once per build instead of once per source: headers of
# libraries, and of the messages, which are large. Other headers of this repository stay out: each change of one would
# compile everything anew. The lint set compiles without them, so that a source still names all that it needs.

# GCC refuses a set that was compiled with other definitions, where Clang asks only for those that it holds.
set(FOREBAY_PRECOMPILED_DEFAULT OFF)
if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  set(FOREBAY_PRECOMPILED_DEFAULT ON)
endif()
option(FOREBAY_PRECOMPILED "Precompile headers" ${FOREBAY_PRECOMPILED_DEFAULT})

set(FOREBAY_PRECOMPILED_LIBRARIES forebay::asio fmt::fmt protobuf::libprotobuf-lite spdlog::spdlog)
set(FOREBAY_PRECOMPILED_HEADERS
  <algorithm> <array> <atomic> <chrono> <condition_variable> <coroutine> <cstdint> <deque> <filesystem> <fstream>
  <functional> <future> <iostream> <map> <memory> <mutex> <optional> <random> <ranges> <set> <span> <sstream> <string>
  <string_view> <thread> <tuple> <unordered_map> <unordered_set> <utility> <variant> <vector>
  <boost/asio/awaitable.hpp> <boost/asio/bind_cancellation_slot.hpp> <boost/asio/co_spawn.hpp>
  <boost/asio/detached.hpp> <boost/asio/io_context.hpp> <boost/asio/ip/tcp.hpp> <boost/asio/post.hpp>
  <boost/asio/redirect_error.hpp> <boost/asio/steady_timer.hpp> <boost/asio/this_coro.hpp>
  <boost/asio/use_awaitable.hpp> <boost/asio/use_future.hpp> <fmt/format.h> <fmt/ranges.h>
  <google/protobuf/extension_set.h> <google/protobuf/generated_message_util.h> <google/protobuf/io/coded_stream.h>
  <google/protobuf/map.h> <google/protobuf/repeated_field.h> <spdlog/spdlog.h>
  <common/base/fmt_compiled.h>)  # by name: a path would differ between two checkouts
set(FOREBAY_PRECOMPILED_MESSAGES <proto/coordinator.pb.h> <proto/node.pb.h>)

# forebay_precompile(name DEPENDS lib … HEADERS <header> …): a set of precompiled headers under this name.
function(forebay_precompile name)
  cmake_parse_arguments(arg "" "" "DEPENDS;HEADERS" ${ARGN})
  if(NOT FOREBAY_PRECOMPILED)
    return()
  endif()
  file(GENERATE OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/${name}.cc CONTENT "")
  add_library(${name} OBJECT ${CMAKE_CURRENT_BINARY_DIR}/${name}.cc)
  target_link_libraries(${name} PRIVATE forebay::flags ${arg_DEPENDS})
  target_precompile_headers(${name} PRIVATE ${arg_HEADERS})
  if(FOREBAY_CCACHE AND CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    set_target_properties(${name} PROPERTIES
      CXX_COMPILER_LAUNCHER "${CMAKE_SOURCE_DIR}/cmake/precompile.sh;${CMAKE_SOURCE_DIR}")
  endif()
endfunction()

# forebay_use_precompiled(target name)
function(forebay_use_precompiled target name)
  if(NOT FOREBAY_PRECOMPILED)
    return()
  endif()
  target_precompile_headers(${target} REUSE_FROM ${name})
  if(NOT target STREQUAL "forebay_base")
    target_link_libraries(${target} PRIVATE forebay_base)  # they refer to Asio, which it compiles
  endif()
  get_target_property(type ${target} TYPE)
  if(type STREQUAL "EXECUTABLE")
    # Only code of the same kind can read them: programs are compiled like the libraries, and linked as PIE all the same.
    set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
    target_compile_options(${target} PRIVATE -fPIC)
  endif()
endfunction()

if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  # As ccache reads them: behind -Xclang a path stays as it is, and each checkout would compile everything for itself.
  set(CMAKE_CXX_COMPILE_OPTIONS_USE_PCH -include-pch <PCH_FILE>)
  add_compile_options("SHELL:$<$<COMPILE_LANGUAGE:CXX>:-Xclang -fno-pch-timestamp>")
endif()
forebay_precompile(forebay_precompiled DEPENDS ${FOREBAY_PRECOMPILED_LIBRARIES} HEADERS ${FOREBAY_PRECOMPILED_HEADERS})
forebay_precompile(forebay_precompiled_messages DEPENDS ${FOREBAY_PRECOMPILED_LIBRARIES} forebay_proto Boost::json
  HEADERS ${FOREBAY_PRECOMPILED_HEADERS} ${FOREBAY_PRECOMPILED_MESSAGES}
          <boost/json/array.hpp> <boost/json/object.hpp> <boost/json/value.hpp>)
