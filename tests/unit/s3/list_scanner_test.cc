#include "common/s3/list_scanner.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <random>

#include "common/s3/list_parser.h"
#include "tests/fakes/synthetic_bucket.h"

namespace forebay {
namespace {

void ExpectSamePage(const ListPage& page, const ListPage& general) {
  EXPECT_EQ(page.next, general.next);
  EXPECT_EQ(page.common_prefixes, general.common_prefixes);
  ASSERT_EQ(page.objects.size(), general.objects.size());
  for (std::size_t i = 0; i < page.objects.size(); ++i) {
    const ListedObject& a = page.objects[i];
    const ListedObject& b = general.objects[i];
    EXPECT_EQ(a.key, b.key);
    EXPECT_EQ(a.size, b.size);
    EXPECT_EQ(a.etag, b.etag);
    EXPECT_EQ(a.mtime_s, b.mtime_s);
    EXPECT_EQ(a.storage_class, b.storage_class);
  }
}

ListRequest Request() {
  ListRequest request;
  request.origin.bucket = "bucket";
  return request;
}

std::string SyntheticPage() {
  const fakes::SyntheticBucket bucket(fakes::SyntheticBucket::Shape::kImageNet, 10'000);
  fakes::S3RequestSeen seen;
  seen.method = "GET";
  seen.bucket = "bucket";
  seen.query = {{"list-type", "2"}, {"max-keys", "100"}};
  return bucket.Answer(seen)->body;
}

/// What was cut out of a page of a hundred keys counts its own.
std::string WithItsCount(std::string xml) {
  int objects = 0;
  for (std::size_t at = 0; (at = xml.find("<Contents>", at)) != std::string::npos; ++at) ++objects;
  const std::string was = "<KeyCount>100<";
  xml.replace(xml.find(was), was.size(), fmt::format("<KeyCount>{}<", objects));
  return xml;
}

// As the services write them: what differs is the order, the quotes and what else they tell.
TEST(ScanListPage, TakesTheShortWayThroughWhatTheServicesWrite) {
  const std::string aws =
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<ListBucketResult "
      "xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><Name>b</Name><Prefix/>"
      "<NextContinuationToken>1ueGcxLPRx1Tr/XYExHnhbYLgveDs2J/wm36Hy4vbOwM=</"
      "NextContinuationToken><KeyCount>1</KeyCount><MaxKeys>1</MaxKeys>"
      "<EncodingType>url</EncodingType><IsTruncated>true</IsTruncated><Contents>"
      "<Key>a%26b.jpg</Key><LastModified>2009-10-12T17:50:30.000Z</LastModified>"
      "<ETag>&quot;fba9dede5f27731c9771645a39863328&quot;</ETag>"
      "<ChecksumAlgorithm>CRC64NVME</ChecksumAlgorithm><ChecksumType>FULL_OBJECT</ChecksumType>"
      "<Size>434234</Size><StorageClass>STANDARD</StorageClass></Contents></ListBucketResult>";
  const std::string ceph =
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?><ListBucketResult "
      "xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><Name>b</Name><Prefix></Prefix>"
      "<MaxKeys>1000</MaxKeys><EncodingType>url</EncodingType><IsTruncated>false</IsTruncated>"
      "<Contents><Key>a+b</Key><LastModified>2026-01-01T00:00:00.123Z</LastModified>"
      "<ETag>&quot;fba9dede5f27731c9771645a39863328-12&quot;</ETag><Size>0</Size>"
      "<StorageClass>STANDARD</StorageClass><Type>Normal</Type></Contents>"
      "<Marker></Marker></ListBucketResult>\n";
  const std::string numeric =
      "<ListBucketResult>\n  <IsTruncated>false</IsTruncated>\n  <Contents>\n    <Key>k</Key>"
      "<LastModified>2026-01-01T00:00:00Z</LastModified><ETag>&#34;a-1&#34;</ETag>"
      "<Size>1</Size>\n  </Contents>\n</ListBucketResult>";
  for (const std::string& xml : {aws, ceph, numeric, SyntheticPage()}) {
    const auto page = ScanListPage(xml, Request());
    const Result<ListPage> general = ParseAnyListPage(xml, Request());
    ASSERT_TRUE(page.has_value()) << xml;
    ASSERT_TRUE(general.has_value()) << general.error().message;
    ExpectSamePage(*page, *general);
  }
}

TEST(ScanListPage, LeavesWhatIsUnusualToTheGeneralParser) {
  const auto page = [](const std::string& inside) {
    return "<ListBucketResult><IsTruncated>false</IsTruncated>" + inside + "</ListBucketResult>";
  };
  const auto object = [](const std::string& key, const std::string& more) {
    return "<Contents><Key>" + key +
           "</Key><LastModified>2026-01-01T00:00:00Z</LastModified><ETag>\"a\"</ETag>"
           "<Size>1</Size>" +
           more + "</Contents>";
  };
  EXPECT_TRUE(ScanListPage(page(object("k", "")), Request()).has_value());
  for (const std::string& unusual :
       {object("a&amp;b", ""), object("<![CDATA[k]]>", ""), object("k", "<!-- c -->"),
        object("k", "<Owner><ID>1</ID></Owner>"), object("k", "<Key>other</Key>"),
        object("a\r\nb", ""), object("k", "text"), object("k", "<EncodingType>url</EncodingType>"),
        object("k", "") + "<KeyCount>2</KeyCount>",
        std::string("<CommonPrefixes><Prefix>a/</Prefix></CommonPrefixes>")}) {
    EXPECT_FALSE(ScanListPage(page(unusual), Request()).has_value()) << unusual;
  }
}

// Bytes are changed, dropped and repeated: the scanner answers nothing, or the same.
TEST(ScanListPage, AgreesWithTheGeneralParserOnDamagedPages) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE(fmt::format("seed {}", seed));
  std::mt19937 random(seed);
  const std::string whole = SyntheticPage().substr(0, 1500);
  const std::string cut = whole.substr(0, whole.rfind("<Contents>")) + "</ListBucketResult>";
  const std::string sound = WithItsCount(cut);
  static constexpr std::string_view kPieces[] = {"<",     ">",    "&",  "&quot;", "</Key>", "\r",
                                                 "<Key>", "\n",   " ",  "%41",    "+",      "/>",
                                                 "-",     "<!--", "\"", "1",      "url",    "\0"};
  int taken = 0;
  for (int round = 0; round < 20'000; ++round) {
    std::string xml = sound;
    for (std::size_t change = random() % 3; change > 0; --change) {
      const std::size_t at = random() % xml.size();
      const std::string_view piece = kPieces[random() % std::size(kPieces)];
      xml.replace(at, random() % 4, piece);
    }
    const auto page = ScanListPage(xml, Request());
    if (!page) continue;
    ++taken;
    const Result<ListPage> general = ParseAnyListPage(xml, Request());
    ASSERT_TRUE(general.has_value()) << general.error().message << "\n" << xml;
    ASSERT_NO_FATAL_FAILURE(ExpectSamePage(*page, *general)) << xml;
  }
  EXPECT_GT(taken, 5'000);
}

}  // namespace
}  // namespace forebay
