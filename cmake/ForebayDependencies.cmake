# The libraries that Forebay is built on (DESIGN section 7), all of them Debian packages: ops/packages.txt.

find_package(PkgConfig REQUIRED)
find_package(Threads REQUIRED)
find_package(Boost 1.81 CONFIG REQUIRED COMPONENTS headers json)
find_package(OpenSSL REQUIRED)
find_package(CURL REQUIRED)
find_package(Protobuf 3.21 REQUIRED)
find_package(fmt REQUIRED)
find_package(spdlog REQUIRED)
find_package(CLI11 REQUIRED)
find_package(tomlplusplus QUIET)
find_package(prometheus-cpp REQUIRED)
find_package(pugixml REQUIRED)
pkg_check_modules(fuse3 REQUIRED IMPORTED_TARGET fuse3>=3.14)
pkg_check_modules(xxhash REQUIRED IMPORTED_TARGET libxxhash)
pkg_check_modules(toml REQUIRED IMPORTED_TARGET tomlplusplus)

# librocksdb's own CMake package demands the development files of every compressor; only the library is needed here.
find_library(ROCKSDB_LIBRARY rocksdb REQUIRED)
find_path(ROCKSDB_INCLUDE_DIR rocksdb/db.h REQUIRED)
add_library(forebay_rocksdb INTERFACE)
add_library(forebay::rocksdb ALIAS forebay_rocksdb)
target_link_libraries(forebay_rocksdb INTERFACE ${ROCKSDB_LIBRARY})
target_include_directories(forebay_rocksdb SYSTEM INTERFACE ${ROCKSDB_INCLUDE_DIR})

# Asio is compiled once, into forebay_base (common/base/asio_impl.cc); everybody else sees declarations only.
add_library(forebay_asio INTERFACE)
add_library(forebay::asio ALIAS forebay_asio)
target_compile_definitions(forebay_asio INTERFACE BOOST_ASIO_SEPARATE_COMPILATION BOOST_ASIO_NO_DEPRECATED)
target_link_libraries(forebay_asio INTERFACE Boost::headers Threads::Threads)
