#include <fmt/format.h>

#include <chrono>
#include <filesystem>
#include <ostream>
#include <string>
#include <system_error>
#include <utility>

#include "cli/json.h"
#include "cli/name_list.h"
#include "cli/text.h"
#include "cli/verb_table.h"
#include "common/base/files.h"
#include "common/base/units.h"
#include "common/wire/messages.h"
#include "proto/coordinator.pb.h"

namespace forebay {
namespace {

/// A coordinator that begins again with a restored state loads it within seconds.
constexpr std::chrono::seconds kBeginsWithin{60};
constexpr std::chrono::milliseconds kLookEvery{200};

class BackupVerb final : public Verb {
 public:
  void Declare(Options& options) override {
    options.Argument("FILE",
                     "where to: readable by you alone, for it holds the secrets of join tokens; a "
                     "file of that name is replaced when the new one is whole; - is standard "
                     "output",
                     file_);
  }

  Outcome Run(VerbContext& context) override {
    const Status good = CheckFile(context.console);
    if (!good) return std::unexpected(Failure(good.error()));
    std::string bytes;
    proto::BackupRequest request;
    for (;;) {
      request.set_offset(bytes.size());
      auto answer = context.session.Call(Method::kBackup, request);
      if (!answer) return std::unexpected(answer.error());
      proto::BackupReply reply;
      Status parsed = ParseMessage(answer->message, reply);
      if (!parsed) return std::unexpected(Failure(parsed.error()));
      const ByteView piece = answer->payload.bytes;
      bytes.append(reinterpret_cast<const char*>(piece.data()), piece.size());
      if (bytes.size() == reply.total()) break;
      if (piece.empty() || bytes.size() > reply.total()) {
        return std::unexpected(
            Failure(Error{Code::kInternal, "the coordinator's backup has no end"}));
      }
      request.set_number(reply.number());
    }
    if (file_ == "-") {
      context.console.out << bytes << std::flush;
      return Exit::kDone;
    }
    const Status written = WriteFileAtomically(place_, bytes);
    if (!written) {
      return std::unexpected(
          Failure(written.error(), "name a file in a folder that you may write", Exit::kFailed));
    }
    Print(context.console, bytes.size());
    return Exit::kDone;
  }

 private:
  /// What is replaced is a file: a device or a pipe would be one afterwards, and a link its own.
  Status CheckFile(const Console& console) {
    if (file_.empty()) return Fail(Code::kInvalid, "which file is the backup to be written to?");
    if (file_ == "-" && console.out_is_terminal)
      return Fail(Code::kInvalid, "a backup is no text for a terminal: name a file");
    std::error_code error;
    const std::filesystem::file_status there = std::filesystem::status(file_, error);
    if (std::filesystem::exists(there) && !std::filesystem::is_regular_file(there)) {
      return Fail(Code::kInvalid, Escaped(file_) +
                                      " is no file, and is not replaced by one: name "
                                      "another, or - for standard output");
    }
    const bool is_link = std::filesystem::is_symlink(file_, error);
    if (is_link && !std::filesystem::exists(there))
      return Fail(Code::kInvalid, Escaped(file_) + " is a link to what is not there: name a file");
    const std::filesystem::path behind = std::filesystem::canonical(file_, error);
    place_ = is_link && !error ? behind.string() : file_;
    return {};
  }

  void Print(const Console& console, std::size_t bytes) const {
    if (console.json()) {
      boost::json::object document = NewDocument();
      PutBytes(document, "file", file_);
      document["bytes"] = bytes;
      PrintDocument(console, document);
      return;
    }
    console.out << fmt::format("the coordinator's state is in {}, {}\n", Escaped(file_),
                               HumanBytes(bytes))
                << std::flush;
  }

  std::string file_;
  std::string place_;  // behind a symbolic link
};

class RestoreVerb final : public Verb {
 public:
  void Declare(Options& options) override {
    options.Argument("FILE", "what `forebay backup` has written", file_);
  }

  Outcome Run(VerbContext& context) override {
    auto upload = UploadFile(context.session, context.console, file_,
                             "name a file that `forebay backup` has written");
    if (!upload) return std::unexpected(upload.error());
    proto::RestoreRequest request;
    request.set_upload(*upload);
    auto reply = Ask<proto::RestoreReply>(context.session, Method::kRestore, request);
    if (!reply) {
      reply.error().error = reply.error().error.Within("restoring " + Escaped(file_));
      return std::unexpected(reply.error());
    }
    const bool answers = WaitUntilItAnswers(context.session, *reply);
    Print(context.console, *reply, answers);
    return answers ? Exit::kDone : Exit::kPartly;
  }

 private:
  static bool WaitUntilItAnswers(Session& session, const proto::RestoreReply& restored) {
    const TimePoint until = session.Now() + kBeginsWithin;
    const proto::GetLinksRequest request;
    while (session.Now() < until) {
      auto links = Ask<proto::GetLinksReply>(session, Method::kGetLinks, request);
      if (links && links->cluster() == restored.cluster()) return true;
      if (!session.Pause(kLookEvery) || session.TimedOut()) return false;
    }
    return false;
  }

  static void Print(const Console& console, const proto::RestoreReply& reply, bool answers) {
    const std::string cluster = UuidFromBytes(reply.cluster()).ToString();
    const std::string taken = Rfc3339(reply.taken_unix_s());
    if (console.json()) {
      boost::json::object document = NewDocument();
      document["cluster"] = cluster;
      document["taken"] = taken;
      document["links"] = reply.links();
      document["fence"] = reply.fence();
      document["answers"] = answers;
      PrintDocument(console, document);
      return;
    }
    console.out << fmt::format(
        "the state of {} is restored: cluster {}, {} links, which are listed again; join tokens of "
        "then are revoked (`forebay token create` makes new ones), and certificates that were "
        "revoked since then must be revoked again\n",
        taken, cluster, reply.links());
    if (!answers) {
      console.out << "the coordinator does not answer yet: look into its log\n";
    }
    console.out << std::flush;
  }

  std::string file_;
};

}  // namespace

std::unique_ptr<Verb> MakeBackup() { return std::make_unique<BackupVerb>(); }
std::unique_ptr<Verb> MakeRestore() { return std::make_unique<RestoreVerb>(); }

}  // namespace forebay
