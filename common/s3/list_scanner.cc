#include "common/s3/list_scanner.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>

#include "common/model/limits.h"
#include "common/s3/list_fields.h"
#include "common/s3/list_parser.h"

namespace forebay {
namespace {

constexpr std::string_view kDeclaration = "<?xml ";
constexpr std::string_view kRoot = "<ListBucketResult";
constexpr std::string_view kRootEnd = "</ListBucketResult>";
constexpr std::string_view kNamespace = " xmlns=\"";
constexpr std::string_view kContents = "<Contents>";
constexpr std::string_view kContentsEnd = "</Contents>";
constexpr std::string_view kEncoding = "<EncodingType>url</EncodingType>";
constexpr std::string_view kQuote = "&quot;";
constexpr std::string_view kNumericQuote = "&#34;";

bool IsBlank(char c) { return c == ' ' || c == '\n' || c == '\t'; }

bool IsLetter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

/// An element that holds text alone.
struct Leaf {
  std::string_view name;
  std::string_view text;
};

/// Moves through the text; a step that does not find what it looks for moves nothing.
class Scanner {
 public:
  explicit Scanner(std::string_view text) : rest_(text) {}

  bool Take(std::string_view literal) {
    if (!rest_.starts_with(literal)) return false;
    rest_.remove_prefix(literal.size());
    return true;
  }

  void SkipBlanks() {
    while (!rest_.empty() && IsBlank(rest_.front())) rest_.remove_prefix(1);
  }

  /// What stands before `end`, which is taken, too.
  std::optional<std::string_view> Until(std::string_view end) {
    const std::size_t at = rest_.find(end);
    if (at == std::string_view::npos) return std::nullopt;
    const std::string_view before = rest_.substr(0, at);
    rest_.remove_prefix(at + end.size());
    return before;
  }

  /// Text with a line end of another system would be changed by an XML parser: none is taken.
  std::optional<Leaf> TakeLeaf() {
    if (rest_.empty() || rest_.front() != '<') return std::nullopt;
    std::size_t at = 1;
    while (at < rest_.size() && IsLetter(rest_[at])) ++at;
    const std::string_view name = rest_.substr(1, at - 1);
    if (name.empty()) return std::nullopt;
    if (rest_.substr(at).starts_with("/>")) {
      rest_.remove_prefix(at + 2);
      return Leaf{.name = name, .text = {}};
    }
    if (at >= rest_.size() || rest_[at] != '>') return std::nullopt;
    const std::size_t begin = at + 1;
    const std::size_t end = rest_.find('<', begin);
    if (end == std::string_view::npos) return std::nullopt;
    const std::string_view text = rest_.substr(begin, end - begin);
    const std::string_view behind = rest_.substr(end);
    const bool closed = behind.starts_with("</") && behind.substr(2).starts_with(name) &&
                        behind.substr(2 + name.size()).starts_with('>');
    if (!closed || text.find('\r') != std::string_view::npos) return std::nullopt;
    rest_ = behind.substr(name.size() + 3);
    return Leaf{.name = name, .text = text};
  }

  bool AtEnd() const { return rest_.empty(); }

 private:
  std::string_view rest_;
};

/// Fills `member` once; false when it was there before.
bool SetOnce(std::optional<std::string_view>& member, std::string_view text) {
  if (member) return false;
  member = text;
  return true;
}

/// The text of an ETag element without the quotes' entities.
std::optional<std::string> ScanETag(std::string_view text) {
  for (const std::string_view quote : {kQuote, kNumericQuote}) {
    if (text.size() >= 2 * quote.size() && text.starts_with(quote) && text.ends_with(quote)) {
      text = text.substr(quote.size(), text.size() - 2 * quote.size());
      // Quotes in it would be a second pair, which no ETag has.
      if (text.starts_with('"')) return std::nullopt;
      break;
    }
  }
  if (text.find('&') != std::string_view::npos) return std::nullopt;
  return UnquotedETag(text);
}

class PageScanner {
 public:
  PageScanner(std::string_view xml, const ListRequest& request)
      : scanner_(xml), request_(request), encoded_(xml.find(kEncoding) != std::string_view::npos) {}

  std::optional<ListPage> Scan() {
    if (!TakeHead()) return std::nullopt;
    page_.objects.reserve(std::min<std::size_t>(request_.max_keys, 1000));
    for (;;) {
      scanner_.SkipBlanks();
      if (scanner_.Take(kContents)) {
        if (page_.objects.size() >= request_.max_keys || !TakeObject()) return std::nullopt;
      } else if (scanner_.Take(kRootEnd)) {
        break;
      } else if (!TakeMember()) {
        return std::nullopt;
      }
    }
    scanner_.SkipBlanks();
    if (!scanner_.AtEnd() || !TakeEnd()) return std::nullopt;
    return std::move(page_);
  }

 private:
  bool TakeHead() {
    if (scanner_.Take(kDeclaration)) {
      const auto declaration = scanner_.Until("?>");
      if (!declaration || declaration->find_first_of("<>") != std::string_view::npos) return false;
    }
    scanner_.SkipBlanks();
    if (!scanner_.Take(kRoot)) return false;
    if (scanner_.Take(kNamespace)) {
      const auto space = scanner_.Until("\"");
      if (!space || space->find_first_of("<>&\r\n\t") != std::string_view::npos) return false;
    }
    return scanner_.Take(">");
  }

  /// An element of the root beside `Contents`. Common prefixes are left to the general parser.
  bool TakeMember() {
    const std::optional<Leaf> leaf = scanner_.TakeLeaf();
    if (!leaf) return false;
    if (leaf->name == "Contents" || leaf->name == "CommonPrefixes") return false;
    if (leaf->name == "IsTruncated") return SetOnce(truncated_, leaf->text);
    if (leaf->name == "NextContinuationToken") return SetOnce(token_, leaf->text);
    if (leaf->name == "EncodingType") return SetOnce(encoding_, leaf->text);
    if (leaf->name == "KeyCount") return SetOnce(count_, leaf->text);
    return true;
  }

  bool TakeObject() {
    std::optional<std::string_view> key;
    std::optional<std::string_view> size;
    std::optional<std::string_view> etag;
    std::optional<std::string_view> date;
    std::optional<std::string_view> storage_class;
    for (;;) {
      scanner_.SkipBlanks();
      if (scanner_.Take(kContentsEnd)) break;
      const std::optional<Leaf> leaf = scanner_.TakeLeaf();
      if (!leaf) return false;
      bool taken = true;
      if (leaf->name == "Key") {
        taken = SetOnce(key, leaf->text);
      } else if (leaf->name == "Size") {
        taken = SetOnce(size, leaf->text);
      } else if (leaf->name == "ETag") {
        taken = SetOnce(etag, leaf->text);
      } else if (leaf->name == "LastModified") {
        taken = SetOnce(date, leaf->text);
      } else if (leaf->name == "StorageClass") {
        taken = SetOnce(storage_class, leaf->text);
      } else if (leaf->name == "EncodingType") {
        taken = false;  // it would look like the root's
      }
      if (!taken) return false;
    }
    if (!key || !size || !etag || !date) return false;
    return AddObject(*key, *size, *etag, *date, storage_class.value_or(std::string_view()));
  }

  bool AddObject(std::string_view key, std::string_view size, std::string_view etag,
                 std::string_view date, std::string_view storage_class) {
    for (const std::string_view text : {key, storage_class}) {
      if (text.find('&') != std::string_view::npos) return false;
    }
    std::optional<std::string> name =
        encoded_ ? UrlDecoded(key) : std::optional<std::string>(std::in_place, key);
    if (!name || name->empty() || name->size() > kMaxKeyBytes) return false;
    if (!name->starts_with(request_.prefix)) return false;
    const std::optional<std::uint64_t> bytes = ParseDecimal(size);
    if (!bytes) return false;
    std::optional<std::string> tag = ScanETag(etag);
    if (!tag) return false;
    if (date.empty() || date != last_date_) {  // objects that were uploaded together
      const std::optional<std::int64_t> time = ParseIso8601(date);
      if (!time) return false;
      last_date_ = date;
      last_time_ = *time;
    }
    page_.objects.push_back(ListedObject{.key = *std::move(name),
                                         .size = *bytes,
                                         .etag = *std::move(tag),
                                         .mtime_s = last_time_,
                                         .storage_class = std::string(storage_class)});
    return true;
  }

  bool TakeEnd() {
    if (encoded_ != (encoding_ == "url")) return false;
    const bool counted = count_ && !count_->empty();
    if (counted && ParseDecimal(*count_) != page_.objects.size()) return false;
    if (truncated_ == "false") return true;
    const bool has_next = truncated_ == "true" && token_ && !token_->empty() &&
                          token_->find('&') == std::string_view::npos &&
                          *token_ != request_.continuation;
    if (has_next) page_.next = *token_;
    return has_next;
  }

  Scanner scanner_;
  const ListRequest& request_;
  const bool encoded_;  // known only behind the keys, perhaps
  ListPage page_;
  std::optional<std::string_view> truncated_;
  std::optional<std::string_view> token_;
  std::optional<std::string_view> encoding_;
  std::optional<std::string_view> count_;
  std::string_view last_date_;
  std::int64_t last_time_ = 0;
};

}  // namespace

std::optional<ListPage> ScanListPage(std::string_view xml, const ListRequest& request) {
  // Nothing else ends the text for one parser and not for the other.
  if (xml.find('\0') != std::string_view::npos) return std::nullopt;
  return PageScanner(xml, request).Scan();
}

}  // namespace forebay
