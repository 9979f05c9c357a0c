#include "ding_worker/base/params.h"

#include "absl/strings/str_cat.h"
#include "ding_worker/base/call_user.h"
#include "google/protobuf/descriptor.h"

namespace ding {
namespace {

// Returns the full name of the message in `any`; empty if `any` is empty.
absl::string_view MessageName(const google::protobuf::Any& any) {
  absl::string_view url = any.type_url();
  const size_t slash = url.rfind('/');
  if (slash != absl::string_view::npos) url.remove_prefix(slash + 1);
  return url;
}

}  // namespace

absl::Status ReadParams(const GivenParams& given, google::protobuf::Message* params) {
  if (given.params == nullptr) return absl::OkStatus();
  const absl::string_view found = MessageName(*given.params);
  const std::string hold = absl::StrCat(
      given.field, " hold ", found.empty() ? "no message" : absl::StrCat("a ", found), ", ");
  if (params == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat(hold, "but type '", given.type, "' takes none"));
  }
  if (given.params->UnpackTo(params)) return absl::OkStatus();
  const absl::string_view taken = params->GetDescriptor()->full_name();
  if (found == taken) {
    return absl::InvalidArgumentError(
        absl::StrCat(given.field, " hold bytes that are no valid ", taken));
  }
  return absl::InvalidArgumentError(
      absl::StrCat(hold, "expected a ", taken, " for type '", given.type, "'"));
}

void ReadParams(const GivenParams& given, google::protobuf::Message* params,
                std::vector<std::string>* problems) {
  const absl::Status read = ReadParams(given, params);
  if (!read.ok()) problems->emplace_back(read.message());
}

absl::Status TakesNoParams(const GivenParams& given) { return ReadParams(given, nullptr); }

absl::Status CheckParams(const ParamsCheck& check, const GivenParams& given) {
  if (check == nullptr) return absl::OkStatus();
  return CallUser(absl::StrCat("the check of ", given.field, " of type '", given.type, "'"),
                  [&] { return check(given); });
}

}  // namespace ding
