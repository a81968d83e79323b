#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <utility>

#include "common/s3/auth/default_chain.h"
#include "common/s3/s3_client.h"
#include "tests/fakes/run_task.h"
#include "tests/fakes/scripted_s3.h"

namespace forebay {

/// Keeps the bytes of the last attempt and counts attempts.
class TextSink final : public BodySink {
 public:
  void OnAttempt() override {
    ++attempts;
    text.clear();
  }
  void HoldBack() override { ++held_back; }
  void OnData(ByteView bytes) override {
    text.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }

  std::string text;
  int attempts = 0;
  int held_back = 0;
};

/// A client with short waits in front of a scripted S3.
class S3ClientTest : public testing::Test {
 protected:
  static S3Options FastOptions() {
    S3Options options;
    options.http.user_agent = "forebay/test";
    options.retry.base = std::chrono::milliseconds(1);
    options.retry.throttled_base = std::chrono::milliseconds(2);
    options.retry.cap = std::chrono::milliseconds(20);
    return options;
  }
  /// For tests of time-outs alone: on a busy machine a good answer may miss these.
  static S3Options ImpatientOptions() {
    S3Options options = FastOptions();
    options.http.first_byte_timeout = std::chrono::milliseconds(200);
    options.http.stall_timeout = std::chrono::milliseconds(200);
    return options;
  }
  static AwsEnvironment Keys() {
    return AwsEnvironment({{"AWS_ACCESS_KEY_ID", "AKTEST"}, {"AWS_SECRET_ACCESS_KEY", "secret"}});
  }

  S3Client& Client() {
    if (!client_) Restart(FastOptions());
    return *client_;
  }
  S3Client& Restart(S3Options options, const AwsEnvironment& environment = Keys()) {
    AwsEnvironment::Variables variables = environment.variables();
    // Where the tests run on an instance of EC2, its role is none of theirs.
    variables.try_emplace("AWS_EC2_METADATA_DISABLED", "true");
    client_ = std::make_unique<S3Client>(
        std::move(options), DefaultCredentialChain(AwsEnvironment(std::move(variables)), ""));
    client_->Start();
    return *client_;
  }

  LinkOrigin Origin() const {
    LinkOrigin origin;
    origin.bucket = "data";
    origin.endpoint = server_.endpoint();
    origin.region = "us-east-1";
    origin.path_style = true;
    return origin;
  }

  /// Stores `key` and makes the request for a part of it.
  GetRequest Stored(const std::string& key, const std::string& body, std::uint64_t offset,
                    std::uint64_t length) {
    GetRequest request;
    request.origin = Origin();
    request.key = key;
    request.etag = server_.Put("data", key, body);
    request.object_size = body.size();
    request.offset = offset;
    request.length = length;
    request.stats = &stats_;
    return request;
  }
  ListRequest Listing(const std::string& prefix) const {
    ListRequest request;
    request.origin = Origin();
    request.prefix = prefix;
    return request;
  }

  Status Get(const GetRequest& request, BodySink& sink,
             Duration patience = std::chrono::seconds(20)) {
    return fakes::RunTask(Client().Get(request, sink, Deadline::After(patience)));
  }
  Result<ListPage> List(const ListRequest& request, Duration patience = std::chrono::seconds(20)) {
    return fakes::RunTask(Client().List(request, Deadline::After(patience)));
  }
  Result<ObjectHead> Head(const std::string& key) {
    return Head(HeadRequest{.origin = Origin(), .key = key});
  }
  Result<ObjectHead> Head(const HeadRequest& request) {
    return fakes::RunTask(Client().Head(request, Deadline::After(std::chrono::seconds(20))));
  }
  std::uint64_t Retries(RetryReason reason) {
    return Client().counters().retries[static_cast<std::size_t>(reason)].load();
  }
  std::uint64_t Failed(S3Operation operation, Code code) {
    return Client()
        .counters()
        .failed[static_cast<std::size_t>(operation)][static_cast<std::size_t>(code) - 1]
        .load();
  }

  fakes::ScriptedS3 server_;
  CallStats stats_;
  std::unique_ptr<S3Client> client_;
};

/// `length` bytes that are different at every place.
inline std::string Bytes(std::size_t length) {
  std::string text(length, '\0');
  for (std::size_t i = 0; i < length; ++i) {
    text[i] = static_cast<char>((i * 2654435761U) >> 13);
  }
  return text;
}

}  // namespace forebay
