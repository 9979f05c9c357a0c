#include "ding_worker/policy/mlp/panel_products.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "ding_worker/data/tensor.h"

namespace ding::internal_mlp {
namespace {

// So many floats of the operand that is used again and again fit the first level of the cache
// beside the others, and so many the second level.
constexpr int64_t kFirstLevelFloats = 4096;
constexpr int64_t kSecondLevelFloats = 131072;

// A run of panels at a constant distance, each with `lanes` rows.
struct Run {
  int64_t first = 0;
  int64_t panels = 0;
  int64_t distance = 1;
  int64_t lanes = kPanelRows;
};

void AddRun(const PanelKernels& kernels, const WeightGradient& w, const Run& run,
            PanelProduct::Start start) {
  PanelProduct product;
  product.m_size = w.out;
  product.outer_size = run.panels;
  product.inner_size = run.lanes;
  product.a = w.d_output + run.first * w.d_output_panel;
  product.a_row = kPanelRows;
  product.a_outer = run.distance * w.d_output_panel;
  product.b_outer = run.distance * kPanelRows * kPanelRows;
  product.start = start;
  product.b_panel = w.source_block;
  product.c_panel = kPanelRows;
  product.c_row = w.in;
  product.b = w.source + run.first * kPanelRows * kPanelRows;
  product.c = w.gradient;
  const int64_t rest = w.in % kPanelRows;
  // A product writes kHalfPanelRows or kPanelRows columns: another number of them is computed in
  // the working memory.
  const bool in_place = rest == kHalfPanelRows || rest == 0;
  product.panels = in_place ? NumPanels(w.in) : w.in / kPanelRows;
  product.lanes = in_place && rest > 0 ? rest : kPanelRows;
  kernels.multiply(product);
  if (in_place) return;
  product.b += product.panels * product.b_panel;
  product.panels = 1;
  product.lanes = rest;
  product.c = w.last_columns;
  product.c_row = kPanelRows;
  float* const gradient = w.gradient + w.in - rest;
  if (start == PanelProduct::Start::kAdd) {
    for (int64_t o = 0; o < w.out; ++o) {
      std::copy_n(gradient + o * w.in, rest, product.c + o * kPanelRows);
    }
  }
  kernels.multiply(product);
  for (int64_t o = 0; o < w.out; ++o) {
    std::copy_n(product.c + o * kPanelRows, rest, gradient + o * w.in);
  }
}

}  // namespace

absl::Status Planes::Reserve(int64_t panels) {
  panels = std::max<int64_t>(panels, 1);
  if (panels <= capacity_panels_) return absl::OkStatus();
  int64_t row_floats = 0;
  for (const int64_t width : widths_) row_floats += width;
  const int64_t size = row_floats * panels * kPanelRows * static_cast<int64_t>(sizeof(float));
  std::shared_ptr<std::byte> memory = AllocateAligned(size);
  if (memory == nullptr) {
    return absl::ResourceExhaustedError(absl::StrCat("network: no memory for a batch of up to ",
                                                     panels * kPanelRows, " rows (", size,
                                                     " bytes)"));
  }
  // Lanes after the end of a batch are computed with its last panel, so they must be numbers.
  std::memset(memory.get(), 0, static_cast<size_t>(size));
  memory_ = std::move(memory);
  capacity_panels_ = panels;
  planes_.clear();
  auto* next = reinterpret_cast<float*>(memory_.get());
  for (const int64_t width : widths_) {
    planes_.push_back(next);
    next += width * panels * kPanelRows;
  }
  return absl::OkStatus();
}

void MultiplyPanels(const PanelKernels& kernels, const PanelProduct& product,
                    const PanelGroups& panels) {
  const int64_t row_floats = std::max<int64_t>(product.inner_size, 1);
  const int64_t rows_in_cache =
      std::max<int64_t>(kFirstLevelFloats / row_floats / kTileRows, 1) * kTileRows;
  const bool reused = panels.groups * panels.panels() > 1;
  const int64_t block = product.a_inner == 1 && reused ? rows_in_cache : product.m_size;
  for (int64_t m = 0; m < product.m_size; m += block) {
    PanelProduct part = product;
    part.panels = panels.panels();
    part.lanes = RowsInPanel(panels.rows, panels.panels() - 1);
    part.m_size = std::min(block, product.m_size - m);
    part.a += m * product.a_row;
    if (part.bias != nullptr) part.bias += m;
    part.c += m * product.c_row;
    for (int64_t group = 0; group < panels.groups; ++group) {
      kernels.multiply(part);
      part.b += part.panels * part.b_panel;
      part.c += part.panels * part.c_panel;
    }
  }
}

void TransposeToBlocks(const float* panel, int64_t width, int64_t rows, float* to, int64_t block) {
  for (int64_t columns = 0; columns < width; columns += kPanelRows) {
    Transpose(panel + columns * kPanelRows, kPanelRows, std::min(kPanelRows, width - columns), rows,
              to + columns / kPanelRows * block, kPanelRows);
  }
}

void ComputeWeightGradient(const PanelKernels& kernels, const WeightGradient& weights,
                           const PanelGroups& panels) {
  if (panels.groups * panels.rows == 0) {
    std::fill_n(weights.gradient, weights.out * weights.in, 0.0f);
    return;
  }
  const int64_t in_cache = std::max<int64_t>(kSecondLevelFloats / (weights.out * kPanelRows), 4);
  PanelProduct::Start start = PanelProduct::Start::kZero;
  const auto add = [&](Run run) {
    const int64_t end = run.first + run.panels * run.distance;
    for (; run.first < end; run.first += in_cache * run.distance) {
      run.panels = std::min(in_cache, (end - run.first) / run.distance);
      AddRun(kernels, weights, run, start);
      start = PanelProduct::Start::kAdd;
    }
  };
  const int64_t full = panels.rows / kPanelRows;
  const int64_t rest = panels.rows % kPanelRows;
  if (rest == 0) {
    add({0, panels.groups * full, 1, kPanelRows});
  } else if (panels.groups == 1) {
    if (full > 0) add({0, full, 1, kPanelRows});
    add({full, 1, 1, rest});
  } else {
    for (int64_t panel = 0; panel <= full; ++panel) {
      add({panel, panels.groups, full + 1, RowsInPanel(panels.rows, panel)});
    }
  }
}

}  // namespace ding::internal_mlp
