// Memory in panels (panel_kernels.h), and the products of a layer over many panels.
//
// Rows come in groups of equal size, which fill whole panels: a batch of B rows is one group, and T
// steps of B sequences are T groups, so that each step has panels of its own:
//
//     group 0: panel 0 (rows 0..15), panel 1 (rows 16..B-1)   group 1: panel 2, panel 3   ...
//
// Lanes after the end of a group have undefined content, which reaches no result.
//
// Threads: thread-compatible, because the functions write to the memory of their arguments.
#ifndef DING_WORKER_POLICY_MLP_PANEL_PRODUCTS_H_
#define DING_WORKER_POLICY_MLP_PANEL_PRODUCTS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "ding_worker/policy/mlp/panel_kernels.h"

namespace ding::internal_mlp {

// Outputs are cut at multiples of this number, so that the tiles of all instruction sets are full
// (panel_kernels.cc).
inline constexpr int64_t kTileRows = 12;

inline int64_t NumPanels(int64_t rows) { return (rows + kPanelRows - 1) / kPanelRows; }

// Returns the number of rows in panel `panel` of a group of `rows` rows.
inline int64_t RowsInPanel(int64_t rows, int64_t panel) {
  const int64_t rest = rows - panel * kPanelRows;
  return rest < kPanelRows ? rest : kPanelRows;
}

struct PanelGroups {
  int64_t groups = 1;
  int64_t rows = 0;  // of each group

  int64_t panels() const { return NumPanels(rows); }  // of each group
};

// Planes of memory, each with a width of its own: [panels][width][kPanelRows] floats. The memory
// grows to the largest number of panels and is then reused.
class Planes {
 public:
  explicit Planes(std::vector<int64_t> widths) : widths_(std::move(widths)) {}
  // Makes room for `panels` panels. If the memory grows, its content is lost and set to 0.
  //   kResourceExhausted  there is no memory
  absl::Status Reserve(int64_t panels);
  int64_t width(int slot) const { return widths_[slot]; }
  int64_t capacity_panels() const { return capacity_panels_; }
  float* plane(int slot) const { return planes_[slot]; }
  float* panel(int slot, int64_t panel) const {
    return planes_[slot] + panel * widths_[slot] * kPanelRows;
  }

 private:
  const std::vector<int64_t> widths_;
  int64_t capacity_panels_ = 0;
  std::shared_ptr<std::byte> memory_;
  std::vector<float*> planes_;
};

// Computes `product` for all panels of all groups; its `panels` and `lanes` are not read. Each block
// of `a` that fits the cache is used for all panels before the next one, if its rows are contiguous
// (a_inner is 1).
void MultiplyPanels(const PanelKernels& kernels, const PanelProduct& product,
                    const PanelGroups& panels);

// Weight gradients sum over rows, so one of their operands has rows of features: blocks of
// kPanelRows columns, [columns / kPanelRows][panels][kPanelRows rows][kPanelRows features].
//
// Writes a panel of `rows` rows to these blocks: `to` is the place of the panel in the first block,
// and the next block is `block` floats behind it.
void TransposeToBlocks(const float* panel, int64_t width, int64_t rows, float* to, int64_t block);

// gradient[o, i] = sum over rows of d_output[o] * source[i], for `out` outputs of a layer.
struct WeightGradient {
  int64_t out = 0;
  int64_t in = 0;
  const float* d_output = nullptr;  // of these outputs: [panels][out][kPanelRows]
  int64_t d_output_panel = 0;       // floats from one panel to the next: at least out * kPanelRows
  const float* source = nullptr;    // in blocks of columns, each `source_block` floats long
  int64_t source_block = 0;
  float* gradient = nullptr;      // [out, in]
  float* last_columns = nullptr;  // working memory of [out, kPanelRows]
};
void ComputeWeightGradient(const PanelKernels& kernels, const WeightGradient& weights,
                           const PanelGroups& panels);

}  // namespace ding::internal_mlp

#endif  // DING_WORKER_POLICY_MLP_PANEL_PRODUCTS_H_
