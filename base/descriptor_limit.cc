#include "ding_worker/base/descriptor_limit.h"

#include <sys/resource.h>

#include <algorithm>

namespace ding {
namespace {

// The smaller of both. ("Unlimited" is the largest rlim_t, which does not fit into an int64_t.)
int64_t AtMost(int64_t most, rlim_t limit) {
  return static_cast<int64_t>(std::min<rlim_t>(limit, static_cast<rlim_t>(most)));
}

}  // namespace

int64_t DescriptorLimit() {
  rlimit limit = {};
  getrlimit(RLIMIT_NOFILE, &limit);  // cannot fail with these arguments
  return AtMost(kMaxDescriptorLimit, limit.rlim_cur);
}

int64_t RaiseDescriptorLimit(int64_t most) {
  rlimit limit = {};
  getrlimit(RLIMIT_NOFILE, &limit);
  const int64_t found = AtMost(kMaxDescriptorLimit, limit.rlim_cur);
  const auto wanted = static_cast<rlim_t>(AtMost(most, limit.rlim_max));
  if (limit.rlim_cur < wanted) {
    limit.rlim_cur = wanted;
    // If the system refuses, the limit stays as it was, and the program runs with that.
    setrlimit(RLIMIT_NOFILE, &limit);
  }
  return found;
}

}  // namespace ding
