#include "ding_worker/policy/rnn/recurrent_layer.h"

#include <algorithm>

#include "ding_worker/base/cpu.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/spec.h"

namespace ding {

using internal_mlp::kPanelRows;
using internal_mlp::NumPanels;
using internal_mlp::PanelProduct;
using internal_mlp::RowsInPanel;
using internal_rnn::kKeptGates;

namespace {

// Infer() runs so many panels at once, so that its working memory fits the cache.
constexpr int64_t kInferPanels = 16;

int64_t RoundedUp(int64_t width) { return NumPanels(width) * kPanelRows; }

std::vector<int64_t> PassWidths(const RnnCellStructure& structure) {
  const int64_t cell = structure.cell == RnnCell::kLstm ? structure.hidden : 0;
  return {structure.in, kKeptGates * structure.hidden, structure.hidden, cell, cell};
}

std::vector<int64_t> StepWidths(const RnnCellStructure& structure) {
  const int64_t hidden = structure.hidden;
  const bool lstm = structure.cell == RnnCell::kLstm;
  const int64_t cell = lstm ? hidden : 0;
  const int64_t products = lstm ? 0 : structure.gate_rows();
  return {hidden, cell, products, hidden, hidden, cell, kKeptGates * hidden};
}

}  // namespace

RecurrentLayer::RecurrentLayer(const RnnCellStructure& structure,
                               absl::Span<const float> parameters, absl::Span<float> gradients)
    : structure_(structure),
      products_(internal_mlp::PanelKernelsFor(BestInstructionSet())),
      cells_(internal_rnn::CellKernelsFor(BestInstructionSet())),
      parameters_(parameters),
      gradients_(gradients),
      infer_pass_(PassWidths(structure)),
      pass_(PassWidths(structure)),
      step_(StepWidths(structure)),
      d_gates_({structure.gate_rows()}),
      d_products_({structure.cell == RnnCell::kLstm ? 0 : structure.gate_rows()}),
      source_({RoundedUp(std::max(structure.in, structure.hidden))}) {}

absl::Status RecurrentLayer::Infer(const Sequences& sequences, float* outputs,
                                   absl::Span<float> states) {
  const int64_t panels = NumPanels(sequences.rows.rows() / sequences.length);
  const int64_t steps = kInferPanels / std::max<int64_t>(panels, 1);
  return Run(sequences, std::clamp<int64_t>(steps, 1, sequences.length), &infer_pass_, outputs,
             states);
}

absl::Status RecurrentLayer::Forward(const Sequences& sequences, float* outputs,
                                     absl::Span<float> states) {
  layout_.steps = sequences.length;
  layout_.sequences = sequences.rows.rows() / sequences.length;
  layout_.panels = NumPanels(layout_.sequences);
  burn_in_ = sequences.burn_in;
  is_first_.assign(sequences.is_first.begin(), sequences.is_first.end());
  return Run(sequences, sequences.length, &pass_, outputs, states);
}

absl::Status RecurrentLayer::Run(const Sequences& sequences, int64_t steps_at_once, Planes* pass,
                                 float* outputs, absl::Span<float> states) {
  Layout layout;
  layout.steps = sequences.length;
  layout.sequences = sequences.rows.rows() / sequences.length;
  layout.panels = NumPanels(layout.sequences);
  DING_RETURN_IF_ERROR(pass->Reserve(steps_at_once * layout.panels));
  DING_RETURN_IF_ERROR(step_.Reserve(layout.panels));
  StateSink sink;
  if (!states.empty()) sink.states = states.data();
  sink.last_only = states.size() == static_cast<size_t>(layout.sequences * structure_.state_size());
  ScopedFlushDenormals flush;
  LoadStates(sequences, layout);
  for (int64_t first = 0; first < layout.steps; first += steps_at_once) {
    const int64_t steps = std::min(steps_at_once, layout.steps - first);
    LoadInputs(sequences, layout, first, steps, *pass);
    PanelProduct product;
    product.m_size = structure_.gate_rows();
    product.inner_size = structure_.in;
    product.a = parameters_.data() + structure_.weight_ih_offset;
    product.a_row = structure_.in;
    product.b = pass->plane(kInputs);
    product.c = pass->plane(kGates);
    product.start = PanelProduct::Start::kBias;
    product.bias = parameters_.data() + structure_.bias_offset;
    product.b_panel = structure_.in * kPanelRows;
    product.c_panel = kKeptGates * structure_.hidden * kPanelRows;
    internal_mlp::MultiplyPanels(products_, product, {steps, layout.sequences});
    for (int64_t step = first; step < first + steps; ++step) {
      RunStep(sequences, layout, step, step - first, *pass);
      StoreStep(layout, step, outputs, sink);
    }
  }
  return absl::OkStatus();
}

void RecurrentLayer::LoadStates(const Sequences& sequences, const Layout& layout) {
  const int64_t hidden = structure_.hidden;
  const int64_t state_size = structure_.state_size();
  for (const StepSlot slot : {kHidden, kCell}) {
    if (sequences.state.empty()) {
      std::fill_n(step_.plane(slot), layout.panels * step_.width(slot) * kPanelRows, 0.0f);
      continue;
    }
    if (step_.width(slot) == 0) continue;
    const float* const from = sequences.state.data() + (slot == kCell ? hidden : 0);
    for (int64_t panel = 0; panel < layout.panels; ++panel) {
      internal_mlp::Transpose(from + panel * kPanelRows * state_size, state_size,
                              RowsInPanel(layout.sequences, panel), hidden,
                              step_.panel(slot, panel), kPanelRows);
    }
  }
}

void RecurrentLayer::LoadInputs(const Sequences& sequences, const Layout& layout, int64_t first,
                                int64_t steps, const Planes& pass) const {
  int64_t first_feature = 0;
  for (int field = 0; first_feature < structure_.in; ++field) {
    const int64_t width = sequences.rows.spec().field(field).num_elements();
    const float* const rows = sequences.rows.column<float>(field).data();
    for (int64_t slot = 0; slot < steps; ++slot) {
      for (int64_t panel = 0; panel < layout.panels; ++panel) {
        const int64_t row = panel * kPanelRows * layout.steps + first + slot;
        internal_mlp::Transpose(
            rows + row * width, layout.steps * width, RowsInPanel(layout.sequences, panel), width,
            pass.panel(kInputs, slot * layout.panels + panel) + first_feature * kPanelRows,
            kPanelRows);
      }
    }
    first_feature += width;
  }
}

void RecurrentLayer::RunStep(const Sequences& sequences, const Layout& layout, int64_t step,
                             int64_t slot, const Planes& pass) {
  const int64_t hidden = structure_.hidden;
  const int64_t size = hidden * kPanelRows;
  const int64_t first_panel = slot * layout.panels;
  for (int64_t panel = 0; panel < layout.panels; ++panel) {
    float* const hidden_before = pass.panel(kHiddenBefore, first_panel + panel);
    std::copy_n(step_.panel(kHidden, panel), size, hidden_before);
    ClearFirst(sequences.is_first, layout, step, panel, hidden, hidden_before);
    if (!is_lstm()) continue;
    float* const cell_before = pass.panel(kCellBefore, first_panel + panel);
    std::copy_n(step_.panel(kCell, panel), size, cell_before);
    ClearFirst(sequences.is_first, layout, step, panel, hidden, cell_before);
  }
  PanelProduct product;
  product.m_size = structure_.gate_rows();
  product.inner_size = hidden;
  product.a = parameters_.data() + structure_.weight_hh_offset;
  product.a_row = hidden;
  product.b = pass.panel(kHiddenBefore, first_panel);
  if (is_lstm()) {
    product.c = pass.panel(kGates, first_panel);
    product.start = PanelProduct::Start::kAdd;
  } else {
    product.c = step_.plane(kProducts);
    product.start = PanelProduct::Start::kBias;
    product.bias = parameters_.data() + structure_.bias_hh_offset;
  }
  product.b_panel = size;
  product.c_panel = structure_.gate_rows() * kPanelRows;
  internal_mlp::MultiplyPanels(products_, product, {1, layout.sequences});
  for (int64_t panel = 0; panel < layout.panels; ++panel) {
    const int64_t place = first_panel + panel;
    if (is_lstm()) {
      cells_.lstm_forward({size, pass.panel(kGates, place), pass.panel(kCellBefore, place),
                           step_.panel(kCell, panel), pass.panel(kTanhCell, place),
                           step_.panel(kHidden, panel)});
    } else {
      cells_.gru_forward({size, pass.panel(kGates, place), step_.panel(kProducts, panel),
                          pass.panel(kHiddenBefore, place), step_.panel(kHidden, panel)});
    }
  }
}

void RecurrentLayer::StoreStep(const Layout& layout, int64_t step, float* outputs,
                               const StateSink& sink) const {
  const int64_t hidden = structure_.hidden;
  const int64_t state_size = structure_.state_size();
  const bool store_state = sink.states != nullptr && (!sink.last_only || step == layout.steps - 1);
  const int64_t rows_of_states = sink.last_only ? 1 : layout.steps;  // of each sequence
  for (int64_t panel = 0; panel < layout.panels; ++panel) {
    const int64_t lanes = RowsInPanel(layout.sequences, panel);
    const int64_t first = panel * kPanelRows;
    internal_mlp::Transpose(step_.panel(kHidden, panel), kPanelRows, hidden, lanes,
                            outputs + (first * layout.steps + step) * hidden,
                            layout.steps * hidden);
    if (!store_state) continue;
    float* const to =
        sink.states + (first * rows_of_states + (sink.last_only ? 0 : step)) * state_size;
    internal_mlp::Transpose(step_.panel(kHidden, panel), kPanelRows, hidden, lanes, to,
                            rows_of_states * state_size);
    if (!is_lstm()) continue;
    internal_mlp::Transpose(step_.panel(kCell, panel), kPanelRows, hidden, lanes, to + hidden,
                            rows_of_states * state_size);
  }
}

void RecurrentLayer::ClearFirst(absl::Span<const uint8_t> is_first, const Layout& layout,
                                int64_t step, int64_t panel, int64_t width, float* values) {
  if (is_first.empty()) return;
  for (int64_t lane = 0; lane < RowsInPanel(layout.sequences, panel); ++lane) {
    const int64_t sequence = panel * kPanelRows + lane;
    if (is_first[sequence * layout.steps + step] == 0) continue;
    for (int64_t feature = 0; feature < width; ++feature) {
      values[feature * kPanelRows + lane] = 0;
    }
  }
}

absl::Status RecurrentLayer::Backward(const float* d_outputs, float* d_inputs) {
  const int64_t gate_rows = structure_.gate_rows();
  const int64_t hidden = structure_.hidden;
  const int64_t all_panels = layout_.steps * layout_.panels;
  DING_RETURN_IF_ERROR(d_gates_.Reserve(all_panels));
  if (!is_lstm()) DING_RETURN_IF_ERROR(d_products_.Reserve(all_panels));
  DING_RETURN_IF_ERROR(source_.Reserve(all_panels));
  weight_ih_transposed_.resize(gate_rows * structure_.in);
  weight_hh_transposed_.resize(gate_rows * hidden);
  last_columns_.resize(gate_rows * kPanelRows);
  bias_gradients_.resize(kKeptGates * hidden);
  ScopedFlushDenormals flush;
  const float* const parameters = parameters_.data();
  internal_mlp::Transpose(parameters + structure_.weight_hh_offset, hidden, gate_rows, hidden,
                          weight_hh_transposed_.data(), gate_rows);
  for (const StepSlot slot : {kHiddenGradient, kCellGradient, kBiasSums}) {
    std::fill_n(step_.plane(slot), layout_.panels * step_.width(slot) * kPanelRows, 0.0f);
  }
  for (int64_t step = layout_.steps - 1; step >= burn_in_; --step) RunStepBackward(step, d_outputs);
  ComputeBiasGradients();
  float* const gradients = gradients_.data();
  ComputeWeightGradient(kHiddenBefore, is_lstm() ? d_gates_ : d_products_,
                        gradients + structure_.weight_hh_offset);
  ComputeWeightGradient(kInputs, d_gates_, gradients + structure_.weight_ih_offset);
  if (d_inputs == nullptr) return absl::OkStatus();
  internal_mlp::Transpose(parameters + structure_.weight_ih_offset, structure_.in, gate_rows,
                          structure_.in, weight_ih_transposed_.data(), gate_rows);
  ComputeInputGradient(d_inputs);
  return absl::OkStatus();
}

void RecurrentLayer::RunStepBackward(int64_t step, const float* d_outputs) {
  const int64_t hidden = structure_.hidden;
  const int64_t size = hidden * kPanelRows;
  const int64_t first_panel = step * layout_.panels;
  for (int64_t panel = 0; panel < layout_.panels; ++panel) {
    const int64_t place = first_panel + panel;
    float* const d_output = step_.panel(kOutputGradient, panel);
    internal_mlp::Transpose(d_outputs + (panel * kPanelRows * layout_.steps + step) * hidden,
                            layout_.steps * hidden, RowsInPanel(layout_.sequences, panel), hidden,
                            d_output, kPanelRows);
    float* const d_hidden = step_.panel(kHiddenGradient, panel);
    float* const bias_sums = step_.panel(kBiasSums, panel);
    if (is_lstm()) {
      cells_.lstm_backward({size, pass_.panel(kGates, place), pass_.panel(kCellBefore, place),
                            pass_.panel(kTanhCell, place), d_output, d_hidden,
                            step_.panel(kCellGradient, panel), d_gates_.panel(0, place),
                            bias_sums});
    } else {
      cells_.gru_backward({size, pass_.panel(kGates, place), pass_.panel(kHiddenBefore, place),
                           d_output, d_hidden, d_gates_.panel(0, place),
                           d_products_.panel(0, place), bias_sums});
    }
  }
  // No gradient leaves the first step behind the burn-in.
  if (step == burn_in_) return;
  PanelProduct product;
  product.m_size = hidden;
  product.inner_size = structure_.gate_rows();
  product.a = weight_hh_transposed_.data();
  product.a_row = structure_.gate_rows();
  product.b = (is_lstm() ? d_gates_ : d_products_).panel(0, first_panel);
  product.c = step_.plane(kHiddenGradient);
  product.start = is_lstm() ? PanelProduct::Start::kZero : PanelProduct::Start::kAdd;
  product.b_panel = structure_.gate_rows() * kPanelRows;
  product.c_panel = size;
  internal_mlp::MultiplyPanels(products_, product, {1, layout_.sequences});
  for (int64_t panel = 0; panel < layout_.panels; ++panel) {
    for (const StepSlot slot : {kHiddenGradient, kCellGradient}) {
      ClearFirst(is_first_, layout_, step, panel, step_.width(slot), step_.panel(slot, panel));
    }
  }
}

void RecurrentLayer::ComputeWeightGradient(PassSlot source, const Planes& d_gates,
                                           float* gradient) {
  const int64_t block = source_.capacity_panels() * kPanelRows * kPanelRows;
  const int64_t first_panel = burn_in_ * layout_.panels;
  const int64_t end_panel = layout_.steps * layout_.panels;
  for (int64_t place = first_panel; place < end_panel; ++place) {
    internal_mlp::TransposeToBlocks(pass_.panel(source, place), pass_.width(source),
                                    RowsInPanel(layout_.sequences, place % layout_.panels),
                                    source_.plane(0) + place * kPanelRows * kPanelRows, block);
  }
  internal_mlp::WeightGradient weights;
  weights.out = structure_.gate_rows();
  weights.in = pass_.width(source);
  weights.d_output = d_gates.panel(0, first_panel);
  weights.d_output_panel = weights.out * kPanelRows;
  weights.source = source_.plane(0) + first_panel * kPanelRows * kPanelRows;
  weights.source_block = block;
  weights.gradient = gradient;
  weights.last_columns = last_columns_.data();
  internal_mlp::ComputeWeightGradient(products_, weights,
                                      {layout_.steps - burn_in_, layout_.sequences});
}

void RecurrentLayer::ComputeBiasGradients() {
  const int64_t hidden = structure_.hidden;
  products_.sum_rows(step_.plane(kBiasSums), kKeptGates * hidden, layout_.sequences,
                     bias_gradients_.data());
  float* const bias = gradients_.data() + structure_.bias_offset;
  std::copy_n(bias_gradients_.data(), structure_.gate_rows(), bias);
  if (is_lstm()) return;
  float* const bias_hh = gradients_.data() + structure_.bias_hh_offset;
  std::copy_n(bias_gradients_.data(), 2 * hidden, bias_hh);
  std::copy_n(bias_gradients_.data() + 3 * hidden, hidden, bias_hh + 2 * hidden);
}

void RecurrentLayer::ComputeInputGradient(float* d_inputs) {
  const int64_t in = structure_.in;
  const int64_t first_panel = burn_in_ * layout_.panels;
  PanelProduct product;
  product.m_size = in;
  product.inner_size = structure_.gate_rows();
  product.a = weight_ih_transposed_.data();
  product.a_row = structure_.gate_rows();
  product.b = d_gates_.panel(0, first_panel);
  product.c = pass_.panel(kInputs, first_panel);  // The inputs are not needed any more.
  product.b_panel = structure_.gate_rows() * kPanelRows;
  product.c_panel = in * kPanelRows;
  internal_mlp::MultiplyPanels(products_, product, {layout_.steps - burn_in_, layout_.sequences});
  for (int64_t panel = 0; panel < layout_.panels; ++panel) {
    const int64_t lanes = RowsInPanel(layout_.sequences, panel);
    for (int64_t step = 0; step < layout_.steps; ++step) {
      float* const to = d_inputs + (panel * kPanelRows * layout_.steps + step) * in;
      if (step >= burn_in_) {
        internal_mlp::Transpose(pass_.panel(kInputs, step * layout_.panels + panel), kPanelRows, in,
                                lanes, to, layout_.steps * in);
        continue;
      }
      for (int64_t lane = 0; lane < lanes; ++lane) {
        std::fill_n(to + lane * layout_.steps * in, in, 0.0f);
      }
    }
  }
}

}  // namespace ding
