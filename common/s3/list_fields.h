#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

// How single members of an S3 list are written.
namespace forebay {

/// `encoding-type=url`: %NN, and '+' for a blank. Nothing where what had to be encoded stands raw.
std::optional<std::string> UrlDecoded(std::string_view text);

/// "2009-10-12T17:50:30.000Z", with or without the fraction; always UTC. Seconds since 1970.
std::optional<std::int64_t> ParseIso8601(std::string_view text);

}  // namespace forebay
