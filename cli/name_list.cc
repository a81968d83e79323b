#include "cli/name_list.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <istream>

#include "proto/coordinator.pb.h"

namespace forebay {
namespace {

/// As large as the coordinator takes.
constexpr std::size_t kPartBytes = 512ULL << 10;

Failure Unreadable(const std::string& what, const std::string& why, const std::string& hint) {
  return Failure(Error{Code::kInvalid, fmt::format("cannot read {}: {}", what, why)}, hint,
                 Exit::kUsage);
}

}  // namespace

std::expected<std::string, Failure> UploadNames(Session& session, const Console& console,
                                                const std::string& path) {
  return UploadFile(session, console, path,
                    "name a file with one path on each line, or - for the standard input");
}

std::expected<std::string, Failure> UploadFile(Session& session, const Console& console,
                                               const std::string& path, const std::string& hint) {
  const bool from_console = path == "-";
  std::ifstream file;
  if (!from_console) {
    file.open(path, std::ios::binary);
    if (!file) return std::unexpected(Unreadable("'" + path + "'", std::strerror(errno), hint));
  }
  std::istream& in = from_console ? console.in : file;
  const std::string what = from_console ? "the standard input" : "'" + path + "'";
  proto::UploadNamesRequest request;
  std::string part(kPartBytes, '\0');
  for (;;) {
    in.read(part.data(), static_cast<std::streamsize>(part.size()));
    const auto got = static_cast<std::size_t>(in.gcount());
    if (in.bad() || (got == 0 && !in.eof()))
      return std::unexpected(Unreadable(what, "it is no file that can be read", hint));
    if (got == 0) break;
    request.set_data(part.data(), got);
    auto reply = Ask<proto::UploadNamesReply>(session, Method::kUploadNames, request);
    if (!reply) return std::unexpected(reply.error());
    request.set_upload(reply->upload());
    request.set_offset(request.offset() + got);
  }
  if (request.upload().empty()) return std::unexpected(Unreadable(what, "it is empty", hint));
  return request.upload();
}

}  // namespace forebay
