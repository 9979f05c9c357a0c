#include "ding_worker/learner/comm/unsaved_checkpoints.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "ding_worker/base/log.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/interaction/control/protocol.h"

namespace ding {
namespace {

constexpr char kPrefix[] = "unsaved/";

std::string WhatIsUnsaved(absl::string_view policy_id) {
  return absl::StrCat("the last checkpoint of the learner of ", policy_id, " is not saved: ");
}

}  // namespace

void NoteLastCheckpoint(absl::string_view policy_id, const absl::Status& saved, Store* store) {
  const std::string key = absl::StrCat(kPrefix, policy_id);
  absl::Status noted;
  if (saved.ok()) {
    noted = store->Delete(key);
  } else {
    DING_LOG(WARNING) << WhatIsUnsaved(policy_id) << saved.message();
    const absl::string_view why = saved.message();
    noted = store->Put(key, {&why, 1});
  }
  DING_LOG_IF(WARNING, !noted.ok()) << "the coordinator is not told whether the last checkpoint of "
                                    << policy_id << " is saved: " << noted.message();
}

absl::Status TakeUnsaved(Store* store) {
  DING_ASSIGN_OR_RETURN(const std::vector<std::string> keys, store->List(kPrefix));
  absl::Status unsaved;
  for (const std::string& key : keys) {
    std::string why;
    DING_RETURN_IF_ERROR(store->Get(key, &why));
    unsaved.Update(absl::ResourceExhaustedError(
        absl::StrCat(WhatIsUnsaved(absl::StripPrefix(key, kPrefix)), ForPeople(why))));
    DING_RETURN_IF_ERROR(store->Delete(key));
  }
  return unsaved;
}

}  // namespace ding
