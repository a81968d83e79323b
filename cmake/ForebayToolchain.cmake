# Language level, warnings, sanitizers, linker and compiler cache: the settings that every target shares.

option(FOREBAY_TESTS "Build the tests" ON)
set(FOREBAY_SANITIZE "" CACHE STRING "Sanitizers to build with: empty, 'address,undefined' or 'thread'")
set(FOREBAY_COMMIT "" CACHE STRING "Commit that --version reports; empty = ask git at configure time")

# g++ 12 miscompiles coroutines silently (DESIGN section 7): refuse it rather than serve wrong bytes.
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 14)
  message(FATAL_ERROR "g++ ${CMAKE_CXX_COMPILER_VERSION} miscompiles C++20 coroutines. "
                      "Use Clang 19 (apt install clang-19) or GCC 14 and newer; the presets choose Clang 19.")
endif()

set(CMAKE_CXX_STANDARD 23)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_CXX_SCAN_FOR_MODULES OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)

find_program(FOREBAY_CCACHE ccache)
if(FOREBAY_CCACHE)
  set(CMAKE_C_COMPILER_LAUNCHER env CCACHE_BASEDIR=${CMAKE_SOURCE_DIR} CCACHE_NOHASHDIR=1
                                CCACHE_DEPEND=1 CCACHE_PCH_EXTSUM=1
                                CCACHE_SLOPPINESS=pch_defines,time_macros ${FOREBAY_CCACHE})
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_C_COMPILER_LAUNCHER})
endif()

add_library(forebay_flags INTERFACE)
add_library(forebay::flags ALIAS forebay_flags)
target_compile_options(forebay_flags INTERFACE -Wall -Wextra -Wshadow -Wconversion -Werror)
target_include_directories(forebay_flags INTERFACE ${CMAKE_SOURCE_DIR})

# Line tables are enough for a stack trace and halve the time to compile and link against full -g.
add_compile_options($<$<COMPILE_LANG_AND_ID:CXX,Clang>:-gline-tables-only>)

if(FOREBAY_SANITIZE)
  add_compile_options(-fsanitize=${FOREBAY_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${FOREBAY_SANITIZE})
endif()

if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  find_program(FOREBAY_LLD NAMES ld.lld-19 ld.lld)
  if(FOREBAY_LLD)
    add_link_options(--ld-path=${FOREBAY_LLD})
  endif()
endif()

if(NOT FOREBAY_COMMIT)
  execute_process(COMMAND git -C ${CMAKE_SOURCE_DIR} rev-parse --short=12 HEAD
                  OUTPUT_VARIABLE FOREBAY_COMMIT_FROM_GIT OUTPUT_STRIP_TRAILING_WHITESPACE
                  ERROR_QUIET RESULT_VARIABLE git_failed)
  if(git_failed)
    set(FOREBAY_COMMIT_FROM_GIT unknown)
  endif()
else()
  set(FOREBAY_COMMIT_FROM_GIT ${FOREBAY_COMMIT})
endif()

# forebay_library(name [MESSAGES] SOURCES a.cc … DEPENDS lib …): one static library per row of the folder table (DESIGN
# section 8). MESSAGES: most of its sources speak the protocol.
function(forebay_library name)
  cmake_parse_arguments(arg "MESSAGES" "" "SOURCES;DEPENDS;PRIVATE_DEPENDS" ${ARGN})
  add_library(${name} STATIC ${arg_SOURCES})
  target_link_libraries(${name} PUBLIC ${arg_DEPENDS} PRIVATE forebay::flags ${arg_PRIVATE_DEPENDS})
  target_include_directories(${name} PUBLIC ${CMAKE_SOURCE_DIR})
  if(arg_MESSAGES)
    forebay_use_precompiled(${name} forebay_precompiled_messages)
  else()
    forebay_use_precompiled(${name} forebay_precompiled)
  endif()
endfunction()

# forebay_program(name SOURCES main.cc DEPENDS lib …): a program in bin/.
function(forebay_program name)
  cmake_parse_arguments(arg "" "" "SOURCES;DEPENDS" ${ARGN})
  add_executable(${name} ${arg_SOURCES})
  target_link_libraries(${name} PRIVATE forebay::flags ${arg_DEPENDS})
  forebay_use_precompiled(${name} forebay_precompiled)
endfunction()
