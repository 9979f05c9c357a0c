#include "ding_worker/data/segment.h"

#include <limits>
#include <string>

#include "absl/strings/str_cat.h"

namespace ding {

absl::Status ValidateSegments(const SegmentBatch& data) {
  int64_t next_row = 0;
  for (size_t i = 0; i < data.segments.size(); ++i) {
    const Segment& segment = data.segments[i];
    if (segment.begin != next_row || segment.length < 1 ||
        segment.length > data.rows.rows() - next_row) {
      return absl::InvalidArgumentError(
          absl::StrCat("segment ", i, " of stream ", segment.stream, " covers ", segment.length,
                       " rows from row ", segment.begin, ", expected at least one row from row ",
                       next_row, " of ", data.rows.rows()));
    }
    // Sums of steps cannot overflow: whoever uses them need not think of it.
    if (segment.first_step < 0 ||
        segment.first_step > std::numeric_limits<int64_t>::max() - segment.length ||
        segment.end > SegmentEnd::kTruncated) {
      return absl::InvalidArgumentError(absl::StrCat(
          "segment ", i, " of stream ", segment.stream, " has ", segment.length, " rows from step ",
          segment.first_step, " on and end ", static_cast<int>(segment.end),
          ", expected steps from 0 to 2^63 - 1 and an end of 0 to 2"));
    }
    next_row += segment.length;
  }
  if (next_row != data.rows.rows()) {
    return absl::InvalidArgumentError(
        absl::StrCat("segments cover ", next_row, " rows of ", data.rows.rows()));
  }
  if (data.final_obs.rows() != static_cast<int64_t>(data.segments.size())) {
    return absl::InvalidArgumentError(absl::StrCat(
        "final_obs has ", data.final_obs.rows(), " rows for ", data.segments.size(), " segments"));
  }
  if (data.segments.empty()) return absl::OkStatus();
  const Spec& rows = data.rows.spec();
  const Spec& obs = data.final_obs.spec();
  for (int i = 0; i < obs.size(); ++i) {
    if (i < rows.size() && rows.field(i).name == obs.field(i).name &&
        rows.field(i).dtype == obs.field(i).dtype && rows.field(i).shape == obs.field(i).shape) {
      continue;
    }
    return absl::InvalidArgumentError(absl::StrCat(
        "final_obs field '", obs.field(i).name, "' is ", obs.field(i).DebugString(),
        ", the rows' field ", i, " is ",
        i < rows.size() ? absl::StrCat("'", rows.field(i).name, "', ", rows.field(i).DebugString())
                        : std::string("missing")));
  }
  return absl::OkStatus();
}

}  // namespace ding
