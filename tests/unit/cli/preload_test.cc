#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>

#include "tests/unit/cli/scripted_session.h"

namespace forebay::testing {
namespace {

using ::testing::HasSubstr;

class Preload : public ::testing::Test {
 protected:
  Preload() {
    std::string pattern = (std::filesystem::temp_directory_path() / "forebay-test-XXXXXX").string();
    dir_ = ::mkdtemp(pattern.data());
  }
  ~Preload() override {
    std::error_code ignored;
    std::filesystem::remove_all(dir_, ignored);
  }

  static proto::PreloadReply Started() {
    proto::PreloadReply reply;
    reply.set_link("imagenet");
    reply.set_task_id("t-1");
    reply.set_objects(5000);
    reply.set_bytes(5'120'000);
    reply.set_blocks(5000);
    reply.set_capacity_bytes(1 << 30);
    reply.set_needed_bytes(5'120'000);
    reply.set_room_bytes(1 << 30);
    return reply;
  }
  /// The look at the room, and the start.
  void AnswerPreload(const proto::PreloadReply& reply) {
    proto::PreloadReply look = reply;
    look.clear_task_id();
    look.clear_joined();
    session_.Answer(Method::kPreload, look);
    session_.Answer(Method::kPreload, reply);
  }
  static proto::TaskState Done() {
    proto::TaskState task = SamplePreload(1);
    task.set_done(5000);
    task.set_bytes(5'120'000);
    task.set_fetched_blocks(1000);
    task.set_fetched_bytes(1'024'000);
    return task;
  }
  std::string List(const std::string& text) {
    std::ofstream(dir_ / "list", std::ios::binary) << text;
    return dir_ / "list";
  }
  static proto::UploadNamesReply Uploaded(std::uint64_t size) {
    proto::UploadNamesReply reply;
    reply.set_upload("names-1");
    reply.set_size(size);
    return reply;
  }

  ScriptedSession session_;
  std::filesystem::path dir_;
};

TEST_F(Preload, WaitsAndSaysWhatItBrought) {
  AnswerPreload(Started());
  session_.Answer(Method::kGetTask, SamplePreload(0));
  session_.Answer(Method::kGetTask, Done());
  const Ran ran = RunForebay(session_, {"preload", "imagenet/train"});
  EXPECT_EQ(ran.exit, 0);
  EXPECT_EQ(ran.out,
            "'imagenet/train': 5,000 of 5,000 objects are cached, 4.88 MiB; 1000 KiB in 1,000 "
            "blocks was fetched\n");
  EXPECT_EQ(ran.err, "");
  EXPECT_TRUE(session_.Asked<proto::PreloadRequest>(0).room_only());
  const auto request = session_.Asked<proto::PreloadRequest>(1);
  EXPECT_EQ(request.target().text(), "imagenet/train");
  EXPECT_FALSE(request.verify());
  EXPECT_FALSE(request.dry_run());
  EXPECT_FALSE(request.room_only());
}

TEST_F(Preload, SendsEachOptionAndHasOtherNames) {
  for (const char* name : {"preload", "warmup", "prefetch"}) {
    AnswerPreload(Started());
    const std::size_t call = session_.calls();
    const Ran ran = RunForebay(session_, {name, "imagenet", "--verify", "--skip-existing",
                                          "--rate-limit", "200MB/s", "--until", "80%", "--detach"});
    EXPECT_EQ(ran.exit, 0) << ran.err;
    EXPECT_EQ(ran.out, "t-1\n");
    const auto request = session_.Asked<proto::PreloadRequest>(call + 1);
    EXPECT_TRUE(request.verify());
    EXPECT_EQ(request.bytes_per_second(), 200'000'000u);
    EXPECT_DOUBLE_EQ(request.until_ratio(), 0.8);
  }
}

TEST_F(Preload, WrongOptionsAskNobody) {
  for (const std::vector<std::string>& words :
       std::vector<std::vector<std::string>>{{"preload"},
                                             {"preload", "x", "--rate-limit", "0B/s"},
                                             {"preload", "x", "--rate-limit", "fast"},
                                             {"preload", "x", "--until", "0%"},
                                             {"preload", "x", "--until", "120%"},
                                             {"preload", "x", "-f", "-", "--order", "-"},
                                             {"preload", "x", "-f", dir_ / "none"},
                                             {"preload", "x", "-f", dir_},
                                             {"preload", "x", "--order", List("")}}) {
    const Ran ran = RunForebay(session_, words);
    EXPECT_EQ(ran.exit, 2) << ran.err;
  }
  EXPECT_EQ(session_.calls(), 0u);
}

TEST_F(Preload, AListTravelsInParts) {
  const std::string text(600'000, 'x');
  session_.Answer(Method::kUploadNames, Uploaded(524'288));
  session_.Answer(Method::kUploadNames, Uploaded(600'000));
  AnswerPreload(Started());
  ASSERT_EQ(RunForebay(session_, {"preload", "imagenet", "-f", List(text), "--detach"}).exit, 0);
  const auto first = session_.Asked<proto::UploadNamesRequest>(0);
  const auto second = session_.Asked<proto::UploadNamesRequest>(1);
  EXPECT_EQ(first.upload(), "");
  EXPECT_EQ(second.upload(), "names-1");
  EXPECT_EQ(second.offset(), first.data().size());
  EXPECT_EQ(first.data() + second.data(), text);
  for (const std::size_t call : {2U, 3U}) {
    EXPECT_EQ(session_.Asked<proto::PreloadRequest>(call).names_upload(), "names-1");
    EXPECT_EQ(session_.Asked<proto::PreloadRequest>(call).order_upload(), "");
  }
}

TEST_F(Preload, TheListMayComeFromTheInput) {
  session_.Answer(Method::kUploadNames, Uploaded(4));
  AnswerPreload(Started());
  const Terminal terminal{.typed = "a\nb\n"};
  ASSERT_EQ(
      RunForebay(session_, {"preload", "imagenet", "--order", "-", "--detach"}, terminal).exit, 0);
  EXPECT_EQ(session_.Asked<proto::UploadNamesRequest>(0).data(), "a\nb\n");
  EXPECT_EQ(session_.Asked<proto::PreloadRequest>(2).order_upload(), "names-1");
}

TEST_F(Preload, ADryRunSaysWhatItWouldCost) {
  proto::PreloadReply reply = Started();
  reply.clear_task_id();
  reply.set_blocks(3'000'000);
  reply.set_cached_blocks(500'000);
  session_.Answer(Method::kPreload, reply);
  const Ran ran = RunForebay(session_, {"preload", "imagenet", "--dry-run"});
  EXPECT_EQ(ran.exit, 0);
  EXPECT_THAT(ran.out, HasSubstr("2,500,000 GETs are needed, about $1.0000 at $0.40 a million"));
  EXPECT_TRUE(session_.Asked<proto::PreloadRequest>(0).dry_run());
}

TEST_F(Preload, MoreThanFitsIsSaidWithBothNumbersBeforeItBegins) {
  proto::PreloadReply reply = Started();
  reply.set_room_bytes(1 << 20);
  const std::string warning =
      "'imagenet' needs 4.88 MiB that is not cached yet, and 1.00 MiB is free or may be evicted "
      "for it: about 3.88 MiB of it will not be kept (exit 3)\n";
  session_.Answer(Method::kPreload, reply);
  session_.Refuse(Method::kPreload, Error{Code::kUnavailable, "the coordinator is stopping"});
  EXPECT_EQ(RunForebay(session_, {"preload", "imagenet"}).err.substr(0, warning.size()), warning)
      << "also where the start itself fails";

  session_.Answer(Method::kPreload, reply);
  EXPECT_EQ(RunForebay(session_, {"preload", "imagenet", "--dry-run"}).err, warning);

  AnswerPreload(reply);
  proto::TaskState task = Done();
  task.set_done(1000);
  task.set_not_kept(4000);
  task.set_not_kept_bytes(4'096'000);
  session_.Answer(Method::kGetTask, task);
  const Ran ran = RunForebay(session_, {"preload", "imagenet"});
  EXPECT_EQ(ran.exit, 3);
  EXPECT_EQ(ran.err, warning);
  EXPECT_THAT(ran.out, HasSubstr("the cache has no room for 4,000 objects with 3.91 MiB\n"));

  AnswerPreload(reply);
  task.set_link("imagenet");
  task.set_quota_bound(true);
  session_.Answer(Method::kGetTask, task);
  EXPECT_THAT(RunForebay(session_, {"preload", "imagenet"}).out,
              HasSubstr("the quota of link 'imagenet' leaves no room for 4,000 objects with 3.91 "
                        "MiB\n"));
}

TEST_F(Preload, AQuotaThatIsTooSmallIsNamed) {
  proto::PreloadReply reply = Started();
  reply.set_room_bytes(0);
  reply.set_quota_bound(true);
  AnswerPreload(reply);
  EXPECT_EQ(RunForebay(session_, {"preload", "imagenet", "--detach"}).err,
            "'imagenet' needs 4.88 MiB that is not cached yet, and the quota of link 'imagenet' "
            "leaves 0 B: about 4.88 MiB of it will not be kept (exit 3)\n");
}

TEST_F(Preload, FailedObjectsAreExit1AndARetryIsOffered) {
  AnswerPreload(Started());
  proto::TaskState task = SamplePreload(2);
  task.set_failed(1);
  task.set_error("1 of 5000 objects could not be fetched");
  session_.Answer(Method::kGetTask, task);
  const Ran ran = RunForebay(session_, {"preload", "imagenet"});
  EXPECT_EQ(ran.exit, 1);
  EXPECT_THAT(ran.err, HasSubstr("1 of 5000 objects could not be fetched"));
  EXPECT_THAT(ran.err, HasSubstr("`forebay task retry t-1`"));
}

TEST_F(Preload, AnotherOneThatRunsIsJoined) {
  proto::PreloadReply reply = Started();
  reply.set_joined(true);
  AnswerPreload(reply);
  session_.Answer(Method::kGetTask, Done());
  const Ran ran = RunForebay(session_, {"preload", "imagenet"});
  EXPECT_EQ(ran.exit, 0);
  EXPECT_EQ(ran.err, "'imagenet' is being preloaded already: joined task t-1\n");
}

}  // namespace
}  // namespace forebay::testing
