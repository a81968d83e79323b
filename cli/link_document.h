#pragma once

#include <boost/json/object.hpp>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "proto/coordinator.pb.h"

namespace forebay {

// A link as `forebay export` writes it and `forebay apply` reads it: its name, its source, and the
// options of `forebay link` by their names without the dashes. What is as by default is left out,
// but "force-path-style": false is by host, which no option of the command line says.

/// kInvalid: the source is no UTF-8, which JSON cannot hold.
Result<boost::json::object> LinkDocument(const proto::LinkSpec& spec);

/// The parts of a set in one document, as `forebay link` takes them. kInvalid: as LinkDocument, or
/// the parts have different options, which it cannot say.
Result<boost::json::object> SetDocument(const std::string& set,
                                        const std::vector<proto::LinkSpec>& parts);

/// What `forebay link` would ask for with these options. kInvalid: no such option, or a value that
/// is none, with the sentence of `forebay link`.
Result<proto::LinkRequest> LinkRequestOf(const boost::json::object& document);

}  // namespace forebay
