// The checks that every implementation of Store makes first.
//
// Threads: thread-safe (pure functions).
#ifndef DING_WORKER_INTERACTION_STORE_STORE_CHECKS_H_
#define DING_WORKER_INTERACTION_STORE_STORE_CHECKS_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "ding_worker/interaction/store/store.h"

namespace ding {

// Does the same as CheckStoreKey(), and adds the store's URL to the message.
absl::Status CheckKey(const Store& store, absl::string_view key);

// Returns the size of the value, or kInvalidArgument as Store::Put() must.
absl::StatusOr<int64_t> CheckPut(const Store& store, absl::string_view key,
                                 absl::Span<const absl::string_view> pieces);

// Returns the kNotFound of Store::Get().
absl::Status NoSuchKey(const Store& store, absl::string_view key);

}  // namespace ding

#endif  // DING_WORKER_INTERACTION_STORE_STORE_CHECKS_H_
