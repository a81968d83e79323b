#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <boost/json/object.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <cerrno>
#include <fstream>
#include <istream>
#include <iterator>
#include <ostream>
#include <set>
#include <system_error>
#include <utility>
#include <vector>

#include "cli/json.h"
#include "cli/local_mounts.h"
#include "cli/text.h"
#include "cli/verb_table.h"
#include "common/model/limits.h"

namespace forebay {
namespace {

/// A mount whose process was killed is served again after some tenths of a second.
constexpr Duration kTryAgainAfter = std::chrono::milliseconds(200);
constexpr int kTries = 15;

constexpr std::size_t kAnswerBytes = 1UL << 16;

/// A mount that can be told an order.
struct Listener {
  std::string place;
  std::string link;
  std::string socket;
};

class Socket {
 public:
  Socket() : fd_(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {}
  ~Socket() {
    if (fd_ >= 0) ::close(fd_);
  }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;

  /// 0, or the errno.
  int Connect(const std::string& path) const {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    if (path.size() >= sizeof address.sun_path) return ENAMETOOLONG;
    std::ranges::copy(path, address.sun_path);
    const auto* const at = reinterpret_cast<const sockaddr*>(&address);
    return ::connect(fd_, at, sizeof address) == 0 ? 0 : errno;
  }
  bool Send(std::string_view text) const {
    while (!text.empty()) {
      const ssize_t sent = ::send(fd_, text.data(), text.size(), MSG_NOSIGNAL);
      if (sent <= 0) return false;
      text.remove_prefix(static_cast<std::size_t>(sent));
    }
    return true;
  }
  void EndSending() const { ::shutdown(fd_, SHUT_WR); }
  std::string ReceiveAll() const {
    std::string answer(kAnswerBytes, '\0');
    std::size_t got = 0;
    while (got < answer.size()) {
      const ssize_t more = ::recv(fd_, answer.data() + got, answer.size() - got, 0);
      if (more <= 0) break;
      got += static_cast<std::size_t>(more);
    }
    answer.resize(got);
    return answer;
  }

 private:
  int fd_;
};

/// Tells a mount of this machine in which order a job will read.
class HintVerb final : public Verb {
 public:
  void Declare(Options& options) override {
    options.Argument("JOB",
                     "the job's id, as `forebay stats --jobs` shows it: of Slurm its number, of "
                     "Kubernetes the pod's uid, else what the mount's --job-id says",
                     job_);
    options.Argument("FILE",
                     "the files in the order of reading, one on each line: paths in the mount, or "
                     "numbers, which are places in .forebay/manifest and begin with 0. An empty "
                     "file takes back what was announced; - is standard input",
                     file_);
    options.Text("--mount", "MOUNTPOINT",
                 "the mount that the job reads through (default: the only one of this machine)",
                 mountpoint_);
  }

  Outcome Run(VerbContext& context) override {
    if (job_.empty() || job_.size() > kMaxJobIdBytes) {
      return UsageError(fmt::format("a job's id has 1 to {} bytes", kMaxJobIdBytes));
    }
    std::expected<Listener, Failure> listener = Find(context.local);
    if (!listener) return std::unexpected(listener.error());
    std::expected<std::string, Failure> lines = ReadLines(context.console);
    if (!lines) return std::unexpected(lines.error());
    boost::json::object header = {
        {"job", job_}, {"link", listener->link}, {"mountpoint", listener->place}};
    const std::string text = boost::json::serialize(header) + "\n" + *lines;
    std::expected<std::uint64_t, Failure> files = Tell(context.session, *listener, text);
    if (!files) return std::unexpected(files.error());
    Print(context.console, *listener, *files);
    return Exit::kDone;
  }

 private:
  std::expected<Listener, Failure> Find(const LocalView& view) const {
    const std::vector<MountLine> table = ReadMountTable(view.mount_table);
    std::set<std::string> places;
    for (const MountLine& mount : table) {
      if (mount.is_forebay() && mount.root == "/") places.insert(mount.place);
    }
    if (!mountpoint_.empty()) return ListenerAt(Wanted(places));
    std::vector<Listener> found;
    for (const std::string& place : places) {
      std::expected<Listener, Failure> listener = ListenerAt(place);
      if (listener) found.push_back(*std::move(listener));
    }
    if (found.size() == 1) return found.front();
    if (found.empty()) {
      return std::unexpected(
          Failure(Error{Code::kNotFound, "no Forebay mount of this machine can be told an order"},
                  "run this on the machine where the job reads, as a user who may read the mount",
                  Exit::kFailed));
    }
    std::string names;
    for (const Listener& listener : found) {
      names += (names.empty() ? "" : ", ") + Escaped(listener.place);
    }
    return UsageError(fmt::format("this machine has {} mounts: {}", found.size(), names),
                      "say with --mount MOUNTPOINT which one the job reads through");
  }

  std::string Wanted(const std::set<std::string>& places) const {
    std::string wanted = mountpoint_;
    while (wanted.size() > 1 && wanted.ends_with('/')) wanted.pop_back();
    char* const real = ::realpath(wanted.c_str(), nullptr);
    if (real != nullptr && places.contains(real)) wanted = real;
    ::free(real);
    return wanted;
  }

  static std::expected<Listener, Failure> ListenerAt(const std::string& place) {
    const std::expected<boost::json::object, Failure> config = ConfigOfMount(place);
    if (!config || TextIn(*config, "link").empty()) {
      return std::unexpected(Failure(
          Error{Code::kNotFound, fmt::format("{} is no Forebay mount of a link", Escaped(place))},
          "of a mount of all links or of a set, name the link's directory", Exit::kFailed));
    }
    Listener listener{place, TextIn(*config, "link"), TextIn(*config, "local_socket")};
    if (listener.socket.empty()) {
      return std::unexpected(
          Failure(Error{Code::kUnavailable,
                        fmt::format("the mount at {} has no local socket", Escaped(place))},
                  "its log says why; mount it with --local-socket PATH", Exit::kFailed));
    }
    return listener;
  }

  std::expected<std::string, Failure> ReadLines(const Console& console) const {
    std::ifstream file;
    if (file_ != "-") {
      file.open(file_, std::ios::binary);
      if (!file || file.peek() == std::ifstream::traits_type::eof()) {
        if (file.is_open() && file.eof()) return std::string();
        return UsageError(
            fmt::format("cannot read '{}': {}", file_, std::generic_category().message(errno)),
            "name a file with one path on each line, or - for the standard input");
      }
    }
    std::istream& in = file_ == "-" ? console.in : file;
    return std::string(std::istreambuf_iterator<char>(in), {});
  }

  static std::expected<std::uint64_t, Failure> Tell(Session& session, const Listener& listener,
                                                    const std::string& text) {
    for (int tries = 1;; ++tries) {
      const Socket socket;
      const int error = socket.Connect(listener.socket);
      if (error == 0) return Exchange(socket, listener, text);
      const bool restarting = error == ECONNREFUSED || error == ENOENT;
      if (restarting && tries < kTries && session.Pause(kTryAgainAfter)) continue;
      return std::unexpected(Failure(
          Error{error == EACCES ? Code::kDenied : Code::kUnavailable,
                fmt::format("the mount at {} cannot be told: {}: {}", Escaped(listener.place),
                            listener.socket, std::generic_category().message(error))},
          error == EACCES ? "only the user who mounted may; mount it with --allow-other and a "
                            "--local-socket in a folder that others may enter"
                          : "",
          Exit::kFailed));
    }
  }

  static std::expected<std::uint64_t, Failure> Exchange(const Socket& socket,
                                                        const Listener& listener,
                                                        const std::string& text) {
    const bool sent = socket.Send(text);  // a refusal may come before all was taken
    if (sent) socket.EndSending();
    boost::system::error_code failed;
    const boost::json::value answer = boost::json::parse(socket.ReceiveAll(), failed);
    const boost::json::object* fields = failed ? nullptr : answer.if_object();
    if (fields == nullptr) {
      return std::unexpected(
          Failure(Error{Code::kUnavailable,
                        fmt::format("the mount at {} gave no answer", Escaped(listener.place))},
                  "try again; its log says why", Exit::kFailed));
    }
    if (const boost::json::value* error = fields->if_contains("error")) {
      const boost::json::object* why = error->if_object();
      const std::string code = why == nullptr ? "" : TextIn(*why, "code");
      return std::unexpected(
          Failure(Error{code == CodeName(Code::kNotFound) ? Code::kNotFound : Code::kInvalid,
                        why == nullptr ? "the order was refused" : TextIn(*why, "message")}));
    }
    const boost::json::value* files = fields->if_contains("files");
    return files != nullptr && files->is_int64() ? static_cast<std::uint64_t>(files->as_int64())
                                                 : 0;
  }

  void Print(const Console& console, const Listener& listener, std::uint64_t files) const {
    if (console.json()) {
      boost::json::object document = NewDocument();
      document["job"] = job_;
      document["link"] = listener.link;
      document["mountpoint"] = ValidUtf8(listener.place);
      document["files"] = files;
      PrintDocument(console, document);
      return;
    }
    console.out << (files == 0 ? fmt::format("job {} announces nothing any more at {}\n",
                                             Escaped(job_), Escaped(listener.place))
                               : fmt::format("{} files are fetched ahead of job {} at {}\n", files,
                                             Escaped(job_), Escaped(listener.place)))
                << std::flush;
  }

  std::string job_;
  std::string file_;
  std::string mountpoint_;
};

}  // namespace

std::unique_ptr<Verb> MakeHint() { return std::make_unique<HintVerb>(); }

}  // namespace forebay
