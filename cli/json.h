#pragma once

#include <boost/json/fwd.hpp>
#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <string>
#include <string_view>

#include "cli/console.h"

namespace forebay {

/// One line of JSON. As boost::json::serialize, but with fractions as people write them (0.41, not
/// 4.1E-1).
std::string JsonText(const boost::json::value& value);

/// A verb's document, begun with its schema_version.
boost::json::object NewDocument();

/// The document and a line end on stdout.
void PrintDocument(const Console& console, const boost::json::object& document);

/// `object[key] = text`; when `text` is not UTF-8 (S3 keys are any bytes), the replaced text and
/// beside it `key_hex` with the exact bytes.
void PutBytes(boost::json::object& object, std::string_view key, std::string_view text);

}  // namespace forebay
