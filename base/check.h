// CHECK for the floors that do not log: for broken invariants of our own, never for input, peers or
// files.
//
// Example:
//   DING_CHECK(row < rows_) << "row " << row << " of " << rows_;
#ifndef DING_WORKER_BASE_CHECK_H_
#define DING_WORKER_BASE_CHECK_H_

#include <sstream>

#include "absl/base/optimization.h"

namespace ding::internal_base {

// Collects the message and ends the program when the statement is over.
class CheckFailure {
 public:
  CheckFailure(const char* file, int line, const char* condition);
  [[noreturn]] ~CheckFailure();
  std::ostream& stream() { return stream_; }

 private:
  std::ostringstream stream_;
};

// Gives both arms of DING_CHECK's conditional the type void; binds looser than <<.
struct Voidify {
  void operator&&(const std::ostream&) const {}
};

}  // namespace ding::internal_base

#define DING_CHECK(condition)           \
  ABSL_PREDICT_TRUE(condition)          \
  ? (void)0                             \
  : ::ding::internal_base::Voidify() && \
          ::ding::internal_base::CheckFailure(__FILE__, __LINE__, #condition).stream()

#endif  // DING_WORKER_BASE_CHECK_H_
