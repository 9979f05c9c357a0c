// Rows of columns as a part of saved state: a tensor "<scope>/<field>" [rows, ...] for each field.
//
// Threads: thread-safe (pure functions).
#ifndef DING_WORKER_COLLECTOR_COLUMN_STATE_H_
#define DING_WORKER_COLLECTOR_COLUMN_STATE_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/state.h"

namespace ding {

absl::Status WriteColumns(const ColumnsView& columns, absl::string_view scope, StateWriter* writer);
// kInvalidArgument, with found and expected, if what was saved has another layout or number of
// rows.
absl::Status ReadColumns(absl::string_view scope, const MutableColumnsView& columns,
                         StateReader* reader);

}  // namespace ding

#endif  // DING_WORKER_COLLECTOR_COLUMN_STATE_H_
