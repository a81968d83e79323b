// scripted-s3: a bad S3 as a program of its own, for tests of real daemons. It says where it
// listens, takes objects by plain PUTs and its script (s3_script.h) at PUT /-/script, restores what
// is archived at PUT /-/restored, makes many objects at PUT /-/many (DELETE takes them away) and
// one of any size at PUT /-/made, keeps versions after PUT /-/versions, answers GET /-/counts, and
// ends with its standard input.
#include <fmt/format.h>

#include <cstdint>
#include <cstdio>
#include <string>

#include "tests/fakes/s3_script.h"
#include "tests/fakes/scripted_s3.h"

namespace {

using forebay::fakes::S3Answer;
using forebay::fakes::S3RequestSeen;
using forebay::fakes::S3Script;
using forebay::fakes::ScriptedS3;

constexpr const char* kControl = "-";  // no bucket has this name

// PUT /-/many?bucket=B&prefix=P&count=N: objects P000/f000000, P001/f000001, … of this body, in 200
// folders. DELETE: none of them.
void ChangeMany(ScriptedS3& server, const S3RequestSeen& request) {
  constexpr std::uint64_t kFolders = 200;
  const std::uint64_t count = std::stoull(request.query.at("count"));
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::string key =
        fmt::format("{}{:03}/f{:06}", request.query.at("prefix"), i % kFolders, i);
    if (request.method == "DELETE") {
      server.Remove(request.query.at("bucket"), key);
    } else {
      server.Put(request.query.at("bucket"), key, request.body);
    }
  }
}

S3Answer Control(ScriptedS3& server, S3Script& script, const S3RequestSeen& request) {
  S3Answer answer;
  if (request.key == "script" && request.method == "PUT") {
    if (!script.Set(request.body)) answer.status = 400;
  } else if (request.key == "restored" && request.method == "PUT") {
    server.RestoreArchived();
  } else if (request.key == "many" && (request.method == "PUT" || request.method == "DELETE")) {
    ChangeMany(server, request);
  } else if (request.key == "made" && request.method == "PUT") {
    server.PutMade(request.query.at("bucket"), request.query.at("key"),
                   std::stoull(request.query.at("bytes")));
  } else if (request.key == "versions" && request.method == "PUT") {
    server.KeepVersions(request.query.at("bucket"));
  } else if (request.key == "counts") {
    answer.headers = {{"Content-Type", "application/json"}};
    answer.body = script.Counts();
  } else {
    answer.status = 404;
  }
  return answer;
}

}  // namespace

int main() {
  ScriptedS3 server;
  server.ForgetRequests();
  S3Script script(server);
  server.SetHandler([&](const S3RequestSeen& request) -> std::optional<S3Answer> {
    if (request.bucket == kControl) return Control(server, script, request);
    return script.AnswerTo(request);
  });
  fmt::print("ready endpoint={}\n", server.endpoint());
  (void)std::fflush(stdout);
  while (std::getchar() != EOF) {
  }
  return 0;
}
