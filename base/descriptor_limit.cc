#include "ding_worker/base/descriptor_limit.h"

#include <sys/resource.h>

#include <algorithm>

namespace ding {
namespace {

// "Unlimited" is the largest rlim_t, which is no int64_t.
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
    // A system that refuses leaves the limit as it was, under which the program runs as well.
    setrlimit(RLIMIT_NOFILE, &limit);
  }
  return found;
}

}  // namespace ding
