// DING_CHECK ends the program if one of our own invariants is broken. It is for packages that do
// not log (they cannot use glog's CHECK), and never for errors in input, peers or files: those
// return a Status.
//
// Threads: thread-safe.
//
// Example:
//   DING_CHECK(row < rows_) << "row " << row << " of " << rows_;
#ifndef DING_WORKER_BASE_CHECK_H_
#define DING_WORKER_BASE_CHECK_H_

#include <sstream>

#include "absl/base/optimization.h"
#include "ding_worker/base/version.h"

namespace ding::internal_base {

// Collects the message; its destructor, at the end of the statement, prints it and ends the
// program.
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

// Prints file, line, condition and the streamed message to stderr and aborts, unless `condition` is
// true. The message is not evaluated if it is.
#define DING_CHECK(condition)           \
  ABSL_PREDICT_TRUE(condition)          \
  ? (void)0                             \
  : ::ding::internal_base::Voidify() && \
          ::ding::internal_base::CheckFailure(__FILE__, __LINE__, #condition).stream()

#endif  // DING_WORKER_BASE_CHECK_H_
