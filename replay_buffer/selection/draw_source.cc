#include "ding_worker/replay_buffer/selection/draw_source.h"

#include "absl/strings/str_cat.h"
#include "ding_worker/base/call_user.h"
#include "ding_worker/base/status_macros.h"

namespace ding {

absl::Status DrawSource::Select(const DrawRequest& request, absl::Span<int64_t> ids) {
  if (request.selector->ByPriority()) return DrawByPriority(request, ids);
  DING_RETURN_IF_ERROR(CallUser("the selector", [&] {
    return request.selector->Select(*this, request.newest, request.replace, request.rng, ids);
  }));
  if (RanksToIds(ids)) return absl::OkStatus();
  return absl::InternalError(
      absl::StrCat("the selector chose a rank that no candidate has, "
                   "expected 0 to ",
                   size() - 1));
}

}  // namespace ding
