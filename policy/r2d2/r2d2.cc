#include "ding_worker/policy/r2d2/r2d2.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "absl/memory/memory.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/sample_columns.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/policy/batch_columns.h"
#include "ding_worker/policy/loss/r2d2_loss.h"
#include "ding_worker/policy/network.h"
#include "ding_worker/policy/q_learning/q_policy.h"

namespace ding {
namespace {

constexpr char kWhere[] = "training batch";

// Returns the index of an optional column of one `dtype` element.
absl::StatusOr<std::optional<int>> FindScalar(const Spec& batch, absl::string_view name,
                                              DType dtype) {
  const std::optional<int> index = batch.Find(name);
  if (!index.has_value()) return index;
  const FieldSpec& field = batch.field(*index);
  if (field.dtype == dtype && field.num_elements() == 1) return index;
  return absl::InvalidArgumentError(absl::StrCat(kWhere, ": column '", name, "' is ",
                                                 field.DebugString(), ", expected ",
                                                 Scalar(name, dtype).DebugString()));
}

// Copies the rows of width `width` of `values` that begin sequences of `length` rows.
void CopyFirstRows(absl::Span<const float> values, size_t width, size_t length,
                   std::vector<float>* first) {
  const size_t stride = width * length;
  first->resize(values.size() / length);
  for (size_t from = 0, to = 0; from < values.size(); from += stride, to += width) {
    std::copy_n(values.begin() + static_cast<std::ptrdiff_t>(from), width,
                first->begin() + static_cast<std::ptrdiff_t>(to));
  }
}

// Rows [B * T].
struct SequenceView {
  TransitionView transitions;
  SequenceRows rows;
  absl::Span<const float> state;   // [B, S]
  absl::Span<const float> weight;  // [B]; empty: all weights are 1
};

// Reads the columns of r2d2.h. It owns copies of the states and weights.
class SampledSequenceReader {
 public:
  SampledSequenceReader(SpecPtr observation, SpecPtr action, int64_t state_size);

  // The view is valid as long as `batch`, and until the next Read().
  //   kInvalidArgument  besides what SampledTransitionReader says: single rows, burn-in that
  //                     differs between sequences or leaves no row, windows of several steps
  //   kInternal         a value is NaN or infinite; names column and row
  absl::StatusOr<SequenceView> Read(const Batch& batch);

 private:
  absl::Status Resolve(const Spec& batch);
  absl::StatusOr<int64_t> ReadBurnIn(const Batch& batch) const;
  absl::Status CheckOneStep(const Batch& batch) const;

  SampledTransitionReader transitions_;
  ColumnBinding state_;
  std::vector<float> first_states_;
  std::vector<float> weights_;
  SpecPtr resolved_;  // spec of the last batch
  // Indices in it; not set: there is no such column.
  std::optional<int> mask_;
  std::optional<int> burn_in_;
  std::optional<int> is_first_;
  std::optional<int> n_step_;
};

SampledSequenceReader::SampledSequenceReader(SpecPtr observation, SpecPtr action,
                                             int64_t state_size)
    : transitions_(std::move(observation), std::move(action)),
      state_(*MakeSpec({Box(kColumnRnnState, {state_size})}), "", kWhere) {}

absl::Status SampledSequenceReader::Resolve(const Spec& batch) {
  if (!batch.Find(kColumnRnnState).has_value()) {
    return absl::InvalidArgumentError(
        absl::StrCat(kWhere, ": column '", kColumnRnnState,
                     "' is missing, the recurrent state before each row: the collect mode of the "
                     "same policy writes it, and "
                     "replay buffer 'sequence' keeps it; the batch has\n",
                     batch.DebugString()));
  }
  DING_RETURN_IF_ERROR(state_.Resolve(batch));
  DING_ASSIGN_OR_RETURN(mask_, FindScalar(batch, kColumnMask, DType::kBool));
  DING_ASSIGN_OR_RETURN(burn_in_, FindScalar(batch, kColumnBurnIn, DType::kBool));
  DING_ASSIGN_OR_RETURN(is_first_, FindScalar(batch, kColumnIsFirst, DType::kBool));
  DING_ASSIGN_OR_RETURN(n_step_, FindScalar(batch, kColumnNStep, DType::kInt32));
  return absl::OkStatus();
}

absl::StatusOr<int64_t> SampledSequenceReader::ReadBurnIn(const Batch& batch) const {
  if (!burn_in_.has_value()) return 0;
  const absl::Span<const uint8_t> column = batch.column<uint8_t>(*burn_in_);
  const int64_t length = batch.sequence_length();
  int64_t burn_in = 0;
  while (burn_in < length && column[static_cast<size_t>(burn_in)] != 0) ++burn_in;
  if (burn_in == length) {
    return absl::InvalidArgumentError(
        absl::StrCat(kWhere, ": all ", length,
                     " rows of a sequence are burn-in, so that none is left to learn from: the "
                     "burn_in of the replay buffer must be below its unroll_len"));
  }
  for (int64_t row = 0; row < batch.rows(); ++row) {
    if ((column[static_cast<size_t>(row)] != 0) == (row % length < burn_in)) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        kWhere, ": column '", kColumnBurnIn, "' of row ", row % length, " of sequence ",
        row / length, " is ", column[static_cast<size_t>(row)] != 0, ", but sequence 0 has ",
        burn_in, " rows of burn-in: expected the same first rows in each sequence"));
  }
  return burn_in;
}

absl::Status SampledSequenceReader::CheckOneStep(const Batch& batch) const {
  if (!n_step_.has_value()) return absl::OkStatus();
  const absl::Span<const int32_t> steps = batch.column<int32_t>(*n_step_);
  for (size_t row = 0; row < steps.size(); ++row) {
    if (steps[row] == 1) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(kWhere, ": row ", row, " is a window of ", steps[row],
                     " steps, expected 1, because r2d2 sums the steps itself: the replay buffer "
                     "needs nstep 1"));
  }
  return absl::OkStatus();
}

absl::StatusOr<SequenceView> SampledSequenceReader::Read(const Batch& batch) {
  SequenceView view;
  DING_ASSIGN_OR_RETURN(view.transitions, transitions_.Read(batch));
  const int64_t length = batch.sequence_length();
  if (length < 2) {
    return absl::InvalidArgumentError(absl::StrCat(
        kWhere,
        ": it has single rows, but r2d2 learns from sequences of 2 or more: use replay "
        "buffer 'sequence', whose unroll_len is the number of rows"));
  }
  if (resolved_ != batch.spec_ptr()) {
    resolved_.reset();
    DING_RETURN_IF_ERROR(Resolve(batch.spec()));
    resolved_ = batch.spec_ptr();
  }
  DING_RETURN_IF_ERROR(CheckOneStep(batch));
  const ColumnsView states = state_.Bind(batch.view());
  DING_RETURN_IF_ERROR(state_.CheckValues(states));
  view.rows.length = length;
  DING_ASSIGN_OR_RETURN(view.rows.burn_in, ReadBurnIn(batch));
  if (mask_.has_value()) view.rows.mask = batch.column<uint8_t>(*mask_);
  if (is_first_.has_value()) view.rows.is_first = batch.column<uint8_t>(*is_first_);
  const auto state_size = static_cast<size_t>(state_.spec()->field(0).num_elements());
  CopyFirstRows(states.column<float>(0), state_size, static_cast<size_t>(length), &first_states_);
  view.state = first_states_;
  if (!view.transitions.weight.empty()) {
    CopyFirstRows(view.transitions.weight, 1, static_cast<size_t>(length), &weights_);
    view.weight = weights_;
  }
  return view;
}

// A network over the rows of a batch and one step further: its values and states.
struct Unroll {
  explicit Unroll(const SpecPtr& output) : q(output), end_q(output) {}

  ScratchColumns q;               // [B * T, A] of the rows
  std::vector<float> states;      // [B * T, S] after them
  ScratchColumns end_q;           // [E, A] of next_obs of the end rows
  std::vector<float> end_states;  // [E, S] after the end rows
};

class R2d2Learn : public QLearnMode {
 public:
  R2d2Learn(QNetwork* q_network, const R2d2Options& options, Parts parts)
      : QLearnMode(q_network, options.dqn, std::move(parts)),
        nstep_(options.nstep),
        loss_options_{options.dqn.loss, options.scale, options.priority_eta},
        online_(*AsRecurrent(&q_network->network())),
        target_(*AsRecurrent(&target())),
        reader_(q_network->observation(), q_network->action(), online_.state_size()),
        online_unroll_(q_network->network().output_spec()),
        target_unroll_(q_network->network().output_spec()),
        d_q_(q_network->network().output_spec()),
        end_inputs_(q_network->network().input_spec()) {
    description().attributes.sequences = true;
  }

 private:
  absl::StatusOr<QLoss> ComputeLoss(const Batch& data) override {
    DING_ASSIGN_OR_RETURN(const SequenceView batch, reader_.Read(data));
    const TransitionView& rows = batch.transitions;
    DING_RETURN_IF_ERROR(
        network().CheckCanBootstrap(network().MaskOf(rows.next_obs), rows.discount));
    FindEndRows(batch.rows, rows.discount);
    DING_RETURN_IF_ERROR(GatherEndInputs(rows.next_obs));
    // From here on, Inputs() must not be called: ForwardSequences() may keep its view until
    // Backward().
    const Sequences sequences = {network().Inputs(rows.obs), batch.rows.length, batch.state,
                                 batch.rows.is_first, batch.rows.burn_in};
    DING_RETURN_IF_ERROR(UnrollNetworks(sequences));
    DING_RETURN_IF_ERROR(ComputeNextValue(batch));
    return LossFromValues(batch);
  }

  // Writes the rows whose next_obs has a value that no other row has, because nothing follows in
  // the sequence or in the episode.
  void FindEndRows(const SequenceRows& rows, absl::Span<const float> discount) {
    end_rows_.clear();
    for (int64_t row = 0; row < static_cast<int64_t>(discount.size()); ++row) {
      if (discount[static_cast<size_t>(row)] == 0 || !rows.IsLearned(row)) continue;
      if (!rows.Continues(row)) end_rows_.push_back(row);
    }
  }

  // Gathers what the network reads of next_obs of the end rows, and the legal actions there.
  absl::Status GatherEndInputs(const ColumnsView& next_obs) {
    const auto count = static_cast<int64_t>(end_rows_.size());
    end_mask_.clear();
    if (count == 0) return absl::OkStatus();
    DING_ASSIGN_OR_RETURN(const MutableColumnsView inputs, end_inputs_.Rows(count));
    GatherRows(network().Inputs(next_obs), end_rows_, inputs, 0);
    const absl::Span<const uint8_t> mask = network().MaskOf(next_obs);
    if (mask.empty()) return absl::OkStatus();
    for (const int64_t row : end_rows_) {
      const absl::Span<const uint8_t> legal = network().OfRow(mask, row);
      end_mask_.insert(end_mask_.end(), legal.begin(), legal.end());
    }
    return absl::OkStatus();
  }

  absl::Status UnrollNetworks(const Sequences& sequences) {
    const int64_t rows = sequences.rows.rows();
    const auto floats = static_cast<size_t>(rows * online_.state_size());
    online_unroll_.states.resize(floats);
    target_unroll_.states.resize(floats);
    DING_ASSIGN_OR_RETURN(const MutableColumnsView online_q, online_unroll_.q.Rows(rows));
    DING_ASSIGN_OR_RETURN(const MutableColumnsView target_q, target_unroll_.q.Rows(rows));
    DING_RETURN_IF_ERROR(
        target_.InferSequences(sequences, target_q, absl::MakeSpan(target_unroll_.states)));
    DING_RETURN_IF_ERROR(
        online_.ForwardSequences(sequences, online_q, absl::MakeSpan(online_unroll_.states)));
    if (end_rows_.empty()) return absl::OkStatus();
    DING_RETURN_IF_ERROR(StepFurther(&target_, &target_unroll_));
    return options().double_q ? StepFurther(&online_, &online_unroll_) : absl::OkStatus();
  }

  // Computes the values of next_obs of the end rows, from the states after these.
  absl::Status StepFurther(RecurrentNetwork* recurrent, Unroll* unroll) {
    const auto count = static_cast<int64_t>(end_rows_.size());
    const auto width = static_cast<size_t>(recurrent->state_size());
    unroll->end_states.resize(end_rows_.size() * width);
    for (size_t i = 0; i < end_rows_.size(); ++i) {
      std::copy_n(unroll->states.data() + static_cast<size_t>(end_rows_[i]) * width, width,
                  unroll->end_states.data() + i * width);
    }
    DING_ASSIGN_OR_RETURN(const MutableColumnsView inputs, end_inputs_.Rows(count));
    DING_ASSIGN_OR_RETURN(const MutableColumnsView q, unroll->end_q.Rows(count));
    Sequences step;
    step.rows = inputs;
    step.state = unroll->end_states;
    return recurrent->InferSequences(step, q, {});
  }

  // Writes the value of next_obs of each row to next_value_; 0 where it has no effect.
  absl::Status ComputeNextValue(const SequenceView& batch) {
    const int64_t rows = batch.transitions.obs.rows();
    DING_ASSIGN_OR_RETURN(const MutableColumnsView online_q, online_unroll_.q.Rows(rows));
    DING_ASSIGN_OR_RETURN(const MutableColumnsView target_q, target_unroll_.q.Rows(rows));
    value_.resize(static_cast<size_t>(rows));
    SelectValue(online_q.column<float>(0), target_q.column<float>(0),
                network().MaskOf(batch.transitions.obs), absl::MakeSpan(value_));
    next_value_.assign(static_cast<size_t>(rows), 0.0f);
    for (int64_t row = 0; row < rows; ++row) {
      if (!batch.rows.Continues(row)) continue;
      next_value_[static_cast<size_t>(row)] = value_[static_cast<size_t>(row + 1)];
    }
    if (end_rows_.empty()) return absl::OkStatus();
    const auto count = static_cast<int64_t>(end_rows_.size());
    DING_ASSIGN_OR_RETURN(const MutableColumnsView online_end_q, online_unroll_.end_q.Rows(count));
    DING_ASSIGN_OR_RETURN(const MutableColumnsView target_end_q, target_unroll_.end_q.Rows(count));
    end_value_.resize(end_rows_.size());
    SelectValue(online_end_q.column<float>(0), target_end_q.column<float>(0), end_mask_,
                absl::MakeSpan(end_value_));
    for (size_t i = 0; i < end_rows_.size(); ++i) {
      next_value_[static_cast<size_t>(end_rows_[i])] = end_value_[i];
    }
    return absl::OkStatus();
  }

  // Computes the loss from the values, and the gradient of the online network.
  absl::StatusOr<QLoss> LossFromValues(const SequenceView& batch) {
    const TransitionView& transitions = batch.transitions;
    const int64_t rows = transitions.obs.rows();
    const auto size = static_cast<size_t>(rows);
    return_.resize(size);
    return_discount_.resize(size);
    window_end_.resize(size);
    ComputeSequenceReturns(
        batch.rows, transitions.reward, transitions.discount, nstep_,
        {absl::MakeSpan(return_), absl::MakeSpan(return_discount_), absl::MakeSpan(window_end_)});
    bootstrap_.resize(size);
    for (size_t i = 0; i < size; ++i) {
      bootstrap_[i] = next_value_[static_cast<size_t>(window_end_[i])];
    }
    td_error_.resize(size);
    priority_.resize(size / static_cast<size_t>(batch.rows.length));
    DING_ASSIGN_OR_RETURN(const MutableColumnsView q, online_unroll_.q.Rows(rows));
    DING_ASSIGN_OR_RETURN(const MutableColumnsView d_q, d_q_.Rows(rows));
    const R2d2LossResult result = ComputeR2d2Loss(
        batch.rows,
        {q.column<float>(0), transitions.action.column<int64_t>(0), return_, return_discount_,
         bootstrap_, batch.weight},
        loss_options_, absl::MakeSpan(td_error_), d_q.column<float>(0), absl::MakeSpan(priority_));
    if (result.learned_rows == 0) {
      return absl::InvalidArgumentError(absl::StrCat(
          "training batch: each of its ", rows,
          " rows is padding or burn-in, so that there is nothing to learn from: the episodes are "
          "not longer than the burn_in of the replay buffer, ",
          batch.rows.burn_in));
    }
    if (std::isfinite(result.loss)) DING_RETURN_IF_ERROR(online_.Backward(d_q));
    return QLoss{result.loss,         result.mean_q, result.mean_next_value,
                 result.learned_rows, td_error_,     priority_};
  }

  const int64_t nstep_;
  const R2d2LossOptions loss_options_;
  RecurrentNetwork& online_;
  RecurrentNetwork& target_;

  // Working space, kept between iterations.
  SampledSequenceReader reader_;
  Unroll online_unroll_;
  Unroll target_unroll_;
  ScratchColumns d_q_;
  std::vector<int64_t> end_rows_;  // E rows
  ScratchColumns end_inputs_;      // [E] next_obs of the end rows
  std::vector<uint8_t> end_mask_;  // [E, A]; empty: all actions are legal
  std::vector<float> value_;       // [B * T] of obs
  std::vector<float> end_value_;   // [E]
  std::vector<float> next_value_;  // [B * T] of next_obs
  std::vector<float> return_;
  std::vector<float> return_discount_;
  std::vector<int64_t> window_end_;
  std::vector<float> bootstrap_;  // [B * T] next_value_ of the end of the window
  std::vector<float> td_error_;
  std::vector<float> priority_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<R2d2Policy>> R2d2Policy::Create(std::unique_ptr<Network> network,
                                                               SpecPtr action,
                                                               const R2d2Options& options,
                                                               SpecPtr observation) {
  if (AsRecurrent(network.get()) == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("r2d2 needs a recurrent network, but ", network->info(),
                     " is not: set model.type to 'rnn' or 'torch_rnn'"));
  }
  DING_ASSIGN_OR_RETURN(
      std::unique_ptr<QNetwork> q_network,
      QNetwork::Create("r2d2", std::move(network), std::move(action), std::move(observation)));
  auto policy = absl::WrapUnique(new R2d2Policy(std::move(q_network), options.dqn));
  if (options.dqn.modes.learn) {
    DING_ASSIGN_OR_RETURN(QLearnMode::Parts parts,
                          QLearnMode::MakeParts(*policy->q_network(), options.dqn));
    policy->set_learn_mode(
        std::make_unique<R2d2Learn>(policy->q_network(), options, std::move(parts)));
  }
  return policy;
}

}  // namespace ding
