#include "ding_worker/replay_buffer/draw_source.h"

#include "absl/strings/str_cat.h"
#include "ding_worker/base/call_user.h"
#include "ding_worker/base/status_macros.h"

namespace ding {

absl::Status DrawSource::Select(const DrawRequest& request, absl::Span<int64_t> ids) {
  DING_RETURN_IF_ERROR(CallUser("the selector", [&] {
    return request.selector->Select(this, request.newest, request.replace, request.rng, ids);
  }));
  const int64_t begin = store().begin_id();
  const int64_t end = store().end_id();
  for (const int64_t id : ids) {
    if (id >= begin && id < end) continue;
    return absl::InternalError(absl::StrCat("the selector chose row ", id, ", expected ", begin,
                                            " to ", end - 1, ", the rows of the buffer"));
  }
  return absl::OkStatus();
}

}  // namespace ding
