#include "ding_worker/policy/torch/torch_threads.h"

#include <cblas.h>

#include "ATen/Parallel.h"
#include "ding_worker/base/check.h"

namespace ding {

void SetTorchThreads(int num_threads) {
  DING_CHECK(num_threads >= 1) << num_threads << " threads";
  at::set_num_threads(num_threads);
  openblas_set_num_threads(num_threads);
}

int GetTorchThreads() { return at::get_num_threads(); }

}  // namespace ding
