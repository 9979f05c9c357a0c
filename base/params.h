// Reads, checks or refuses the parameters of a type that a config chooses by name. A config holds
// them as a google.protobuf.Any, most often in the field `params`:
//
//     commander { type: "mine"  params { [type.googleapis.com/my.WindowParams] { length: 3 } } }
//
// A maker of a module takes them as an argument (base/module.h).
//
// Threads: thread-safe (pure functions).
//
// A field's range is an option of the field (base/ranges.proto). ReadParams() checks it.
#ifndef DING_WORKER_BASE_PARAMS_H_
#define DING_WORKER_BASE_PARAMS_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "google/protobuf/any.pb.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/message.h"

namespace ding {

// Returns the range of the field in words, such as "at least 1", "above 0", "in [0, 1)" or
// "finite"; empty if it has none.
std::string RangeText(const google::protobuf::FieldDescriptor& field);
// Adds "<path><field> is <value>, expected <range>" to `*problems` for each field that is out of
// its range. Checks nested messages, too, except those in an Any: ReadParams() checks these. `path`
// is empty or ends with a dot.
void CheckRanges(const google::protobuf::Message& message, absl::string_view path,
                 std::vector<std::string>* problems);

// The parameters that a config gives to a type. Refers to the config, which must outlive it.
struct GivenParams {
  // `params` is null if the config sets none.
  GivenParams(absl::string_view type, const google::protobuf::Any* params,
              absl::string_view field = "params")
      : type(type), params(params), field(field) {}
  // Any config message with the fields `type` and `params`.
  template <typename Config>
  GivenParams(const Config& config)  // NOLINT: a config is passed as it is
      : GivenParams(config.type(), config.has_params() ? &config.params() : nullptr) {}

  absl::string_view type;               // the name of the type in its registry
  const google::protobuf::Any* params;  // may be null
  absl::string_view field;              // the name of the field, for messages
};

// Reads the given parameters into `*params`, the message that the type takes. Pass null for a type
// that takes none. If none are given, `*params` is unchanged, but its ranges are still checked.
//   kInvalidArgument  the type takes no parameters, or another message; or the bytes are no such
//                     message. The text names the field, the type and both messages, as in "params
//                     hold a my.WindowParams, but type 'solo' takes none". Or fields are out of
//                     their ranges: the text lists all of them.
absl::Status ReadParams(const GivenParams& given, google::protobuf::Message* params);
// Does the same, and adds the problems to `*problems` (base/status_macros.h).
void ReadParams(const GivenParams& given, google::protobuf::Message* params,
                std::vector<std::string>* problems);

// Checks the parameters given to a type without creating anything, so that a run refuses bad ones
// before it begins. A registry keeps it beside the factory.
using ParamsCheck = std::function<absl::Status(const GivenParams&)>;
// The check of a type that takes no parameters.
absl::Status TakesNoParams(const GivenParams& given);
// The check of a type whose parameters are the message `Params`.
template <typename Params>
absl::Status TakesParams(const GivenParams& given) {
  Params params;
  return ReadParams(given, &params);
}

// Returns what `check` says; OK if `check` is empty, because then the factory decides. If `check`
// throws, the exception becomes an error.
absl::Status CheckParams(const ParamsCheck& check, const GivenParams& given);

}  // namespace ding

#endif  // DING_WORKER_BASE_PARAMS_H_
