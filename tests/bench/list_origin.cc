// An S3 of millions of objects for benchmarks and tests of listings: it answers ListObjectsV2 from
// a formula and stores nothing. Prints its endpoint; ends at the end of its input.
// GET /-/lists answers how many LISTs there were, GET /-/pages how many of them for more than a
// key. PUT /-/keys?count=N: from now on every bucket has N objects, those that it had and others.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>
#include <thread>

#include "tests/fakes/scripted_s3.h"
#include "tests/fakes/synthetic_bucket.h"

int main(int argc, char** argv) {
  using forebay::fakes::S3Answer;
  using forebay::fakes::S3RequestSeen;
  using forebay::fakes::SyntheticBucket;
  std::string shape = "imagenet";
  std::uint64_t keys = 1'000'000;
  unsigned latency_ms = 0;
  CLI::App app("An S3 that lists objects which nobody stores.");
  app.add_option("--shape", shape, "flat, imagenet or deep");
  app.add_option("--keys", keys, "how many objects every bucket has");
  app.add_option("--latency-ms", latency_ms, "waits so long before each answer");
  CLI11_PARSE(app, argc, argv);
  const auto known = SyntheticBucket::ShapeOf(shape);
  if (!known) return app.exit(CLI::ValidationError("--shape", "flat, imagenet or deep"));
  std::atomic<std::uint64_t> keys_now{keys};
  std::atomic<std::uint64_t> lists{0};
  std::atomic<std::uint64_t> pages{0};
  forebay::fakes::ScriptedS3 s3;
  s3.ForgetRequests();
  s3.SetHandler([&](const S3RequestSeen& request) -> std::optional<S3Answer> {
    if (request.bucket == "-") {
      S3Answer count;
      if (request.key == "keys") keys_now = std::stoull(request.query.at("count"));
      count.body = fmt::format("{}\n", request.key == "pages" ? pages.load() : lists.load());
      return count;
    }
    if (latency_ms > 0) std::this_thread::sleep_for(std::chrono::milliseconds(latency_ms));
    std::optional<S3Answer> answer = SyntheticBucket(*known, keys_now).Answer(request);
    if (answer) ++lists;
    const auto asked = request.query.find("max-keys");
    if (answer && (asked == request.query.end() || asked->second != "1")) ++pages;
    return answer;
  });
  fmt::print("{}\n", s3.endpoint());
  std::fflush(stdout);
  while (std::getchar() != EOF) {
  }
}
