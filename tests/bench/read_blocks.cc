// What read_files does, without FUSE: reads the files of a list out of a link through the library
// that forebay-mount is made of, so that what the kernel costs can be subtracted. Prints the same
// line of JSON.
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/bench/reading/client_tree.h"
#include "tests/bench/reading/readers.h"

namespace forebay::bench {
namespace {

int Run(int argc, char** argv) {
  const std::map<std::string, LocalReadsFrom> local{{"files", LocalReadsFrom::kFiles},
                                                    {"socket", LocalReadsFrom::kSocket},
                                                    {"network", LocalReadsFrom::kNetwork}};
  ReadOptions options;
  ClientOptions client;
  CLI::App app(
      "Reads each file of LIST (paths below the link ROOT, one a line) once, in a random order, "
      "without a mount. Prints JSON; exits with 1 when a file could not be read or is not as its "
      "digest says.");
  AddReadOptions(app, options, "a link");
  app.add_option("--coordinator", client.coordinators, "HOST:PORT")->required();
  app.add_option("--state-dir", client.state_dir, "for the link's listing")->required();
  app.add_option("--trust-dir", client.trust_dir, "with certificates")
      ->envname("FOREBAY_TRUST_DIR");
  app.add_option("--local-reads", client.local_reads, "how nodes of this machine are read")
      ->transform(CLI::CheckedTransformer(local));
  CLI11_PARSE(app, argc, argv);
  client.link = options.root;

  // Standard output is for the figures.
  spdlog::set_default_logger(spdlog::stderr_logger_mt("read_blocks"));
  spdlog::set_level(spdlog::level::err);
  return ReadAndPrint("read_blocks", options,
                      [&](const std::vector<std::string>& paths) -> std::unique_ptr<Tree> {
                        auto tree = std::make_unique<ClientTree>(client);
                        const Status opened = tree->Open(paths);
                        if (opened) return tree;
                        std::fprintf(stderr, "read_blocks: %s\n", opened.error().message.c_str());
                        return nullptr;
                      });
}

}  // namespace
}  // namespace forebay::bench

int main(int argc, char** argv) { return forebay::bench::Run(argc, argv); }
