#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "common/s3/curl_engine.h"
#include "common/s3/list_parser.h"
#include "common/s3/object_checksum.h"
#include "common/s3/object_store.h"
#include "common/s3/response_checks.h"
#include "common/s3/s3_client.h"

// How S3Client takes the answers of each kind of request.
namespace forebay {

inline void AppendText(std::string& text, ByteView bytes) {
  text.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

/// Takes a successful answer, attempt after attempt. OnHead and OnBody run on the engine's thread
/// and refuse what must not be used; Finish runs on the caller's, after the last byte.
class AnswerReader {
 public:
  virtual ~AnswerReader() = default;
  virtual Status OnHead(const ResponseHead& head) = 0;
  virtual Status OnBody(ByteView bytes) = 0;
  virtual Status Finish() = 0;
  /// The body, where it is kept: it may be an error after all.
  virtual std::string_view Text() const { return {}; }
};

class GetReader final : public AnswerReader {
 public:
  GetReader(const GetRequest& request, BodySink& sink, ChecksumCounters& counters)
      : request_(request), sink_(sink), counters_(counters) {}

  Status OnHead(const ResponseHead& head) override {
    Status good = CheckGetHead(head, request_);
    if (!good) return good;
    received_ = 0;
    sum_ = nullptr;
    const bool is_known = head.checksum && !head.has_composite_checksum;
    if (WantsWholeObject(request_) && is_known) {
      expected_ = *head.checksum;
      sum_ = BeginChecksum(expected_.kind);
    }
    sink_.OnAttempt();
    if (sum_) sink_.HoldBack();
    return {};
  }
  Status OnBody(ByteView bytes) override {
    if (bytes.size() > request_.length - received_) {
      return Fail(Code::kCorrupt, "the body is longer than its headers say");
    }
    received_ += bytes.size();
    if (sum_) sum_->Update(bytes);
    sink_.OnData(bytes);
    return {};
  }
  Status Finish() override {
    if (received_ == request_.length) return CompareChecksum();
    return Fail(Code::kCorrupt,
                fmt::format("the body ended after {} of {} bytes", received_, request_.length));
  }

 private:
  Status CompareChecksum() {
    if (!sum_) return {};
    const ObjectChecksum found = sum_->Finish();
    if (found == expected_) {
      counters_.matched.fetch_add(1, std::memory_order_relaxed);
      return {};
    }
    counters_.differed.fetch_add(1, std::memory_order_relaxed);
    return Fail(Code::kCorrupt, fmt::format("the body's {} is {} where the object's is {}",
                                            ChecksumName(expected_.kind), ChecksumText(found),
                                            ChecksumText(expected_)));
  }

  const GetRequest& request_;
  BodySink& sink_;
  ChecksumCounters& counters_;
  std::unique_ptr<ChecksumSum> sum_;  // null: there is nothing to compare with
  ObjectChecksum expected_;
  std::uint64_t received_ = 0;
};

/// `Parse` of a whole body of XML.
template <typename Request, typename Page, Result<Page> (*Parse)(std::string_view, const Request&)>
class PageReader final : public AnswerReader {
 public:
  explicit PageReader(const Request& request) : request_(request) {}

  Status OnHead(const ResponseHead& head) override {
    body_.clear();
    if (head.status == 200) return {};
    return Fail(Code::kCorrupt,
                fmt::format("the answer has status {} where 200 was due", head.status));
  }
  Status OnBody(ByteView bytes) override {
    if (body_.size() + bytes.size() > kMaxPageBytes) {
      return Fail(Code::kCorrupt, "the list is longer than any list of S3");
    }
    AppendText(body_, bytes);
    return {};
  }
  Status Finish() override {
    Result<Page> page = Parse(body_, request_);
    if (!page) return Fail(std::move(page.error()));
    page_ = *std::move(page);
    return {};
  }
  std::string_view Text() const override { return body_; }
  Page Take() { return std::move(page_); }

 private:
  // A page of 1000 keys of 1 KiB, every byte escaped, is 4 MB.
  static constexpr std::size_t kMaxPageBytes = std::size_t{16} << 20;

  const Request& request_;
  std::string body_;
  Page page_;
};

using ListReader = PageReader<ListRequest, ListPage, &ParseListPage>;
using VersionsReader = PageReader<VersionsRequest, VersionPage, &ParseVersionPage>;

class HeadReader final : public AnswerReader {
 public:
  Status OnHead(const ResponseHead& head) override {
    Result<ObjectHead> checked = CheckHeadAnswer(head);
    if (!checked) return Fail(std::move(checked.error()));
    head_ = *std::move(checked);
    return {};
  }
  Status OnBody(ByteView /*bytes*/) override {
    return Fail(Code::kCorrupt, "the answer to a HEAD has a body");
  }
  Status Finish() override { return {}; }
  ObjectHead Take() { return std::move(head_); }

 private:
  ObjectHead head_;
};

}  // namespace forebay
