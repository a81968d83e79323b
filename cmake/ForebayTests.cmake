# forebay_test(name [COMPUTES] SOURCES x_test.cc … DEPENDS lib … [LABELS unit]): one GoogleTest program and its ctest
# entry. COMPUTES: it takes long for what it computes, and is optimised under sanitizers, too. The target tests_LABEL
# builds all tests of a label.
find_package(GTest REQUIRED)
include(GoogleTest)

forebay_precompile(forebay_precompiled_tests
  DEPENDS ${FOREBAY_PRECOMPILED_LIBRARIES} forebay_proto GTest::gtest GTest::gmock
  HEADERS ${FOREBAY_PRECOMPILED_HEADERS} ${FOREBAY_PRECOMPILED_MESSAGES} <gmock/gmock.h> <gtest/gtest.h>)

# What most unit tests do themselves costs little time, and compiling it under a sanitizer much: half of it without
# optimisation. Component tests have clocks.
if(FOREBAY_SANITIZE AND FOREBAY_PRECOMPILED)
  target_compile_options(forebay_precompiled_tests PRIVATE -O0)
endif()

# A sanitizer's settings reach every program that a test starts.
set(FOREBAY_SANITIZER_ENVIRONMENT "TSAN_OPTIONS=suppressions=${PROJECT_SOURCE_DIR}/tests/tsan.supp")
# Of the tests of whole programs.
set(FOREBAY_PROGRAM_ENVIRONMENT
  "FOREBAY_BIN=${CMAKE_BINARY_DIR}/bin" "FOREBAY_TESTS=${CMAKE_BINARY_DIR}/tests" ${FOREBAY_SANITIZER_ENVIRONMENT})

function(forebay_test name)
  cmake_parse_arguments(arg "COMPUTES" "TIMEOUT" "SOURCES;DEPENDS;LABELS" ${ARGN})
  if(NOT arg_LABELS)
    set(arg_LABELS unit)
  endif()
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 600)
  endif()
  add_executable(${name} ${arg_SOURCES})
  target_link_libraries(${name} PRIVATE forebay::flags ${arg_DEPENDS} GTest::gtest GTest::gmock GTest::gtest_main)
  if(NOT FOREBAY_SANITIZE)
    forebay_use_precompiled(${name} forebay_precompiled_tests)
  elseif(arg_COMPUTES OR NOT "unit" IN_LIST arg_LABELS)
    forebay_use_precompiled(${name} forebay_precompiled_messages)
  else()
    target_compile_options(${name} PRIVATE -O0)
    forebay_use_precompiled(${name} forebay_precompiled_tests)
  endif()
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  # One ctest entry per program: starting a process per case costs more than the cases.
  add_test(NAME ${name} COMMAND ${name} --gtest_brief=1)
  set_tests_properties(${name} PROPERTIES LABELS "${arg_LABELS}" TIMEOUT ${arg_TIMEOUT}
    ENVIRONMENT ${FOREBAY_SANITIZER_ENVIRONMENT})
  foreach(label IN LISTS arg_LABELS)
    if(NOT TARGET tests_${label})
      add_custom_target(tests_${label})
    endif()
    add_dependencies(tests_${label} ${name})
  endforeach()
endfunction()
