// Vectors of float for loops that are compiled for several instruction sets
// (base/compiled_loops.h), and the functions that such loops share.
//
// Threads: thread-safe; the functions use their arguments only.
#ifndef DING_WORKER_POLICY_MLP_VECTOR_TYPES_H_
#define DING_WORKER_POLICY_MLP_VECTOR_TYPES_H_

#include <cstdint>
#include <type_traits>

#include "ding_worker/base/compiled_loops.h"
#include "ding_worker/base/cpu.h"

namespace ding::internal_mlp {

using Vector4 = float __attribute__((vector_size(16)));
using Vector8 = float __attribute__((vector_size(32)));
using Vector16 = float __attribute__((vector_size(64)));

// The widest vector that an instruction set has.
template <InstructionSet kSet>
using VectorOf =
    std::conditional_t<kSet == InstructionSet::kAvx512, Vector16,
                       std::conditional_t<kSet == InstructionSet::kAvx2, Vector8, Vector4>>;

template <typename Vector>
inline constexpr int64_t kLanesOf = sizeof(Vector) / sizeof(float);

// The vector type of 32-bit integers with the same number of lanes.
template <typename Vector>
struct IntegersOf {
  using Type __attribute__((vector_size(sizeof(Vector)))) = int;
};
template <typename Vector>
using IntegerVector = typename IntegersOf<Vector>::Type;

// The same with unsigned integers.
template <typename Vector>
struct UnsignedOf {
  using Type __attribute__((vector_size(sizeof(Vector)))) = unsigned;
};
template <typename Vector>
using UnsignedVector = typename UnsignedOf<Vector>::Type;

// The same vector type without alignment.
template <typename Vector>
struct Unaligned {
  using Type __attribute__((aligned(4), may_alias)) = Vector;
};
template <typename Vector>
using UnalignedVector = typename Unaligned<Vector>::Type;

template <typename Vector>
DING_INLINE void Load(const float* from, Vector& vector) {
  vector = *reinterpret_cast<const UnalignedVector<Vector>*>(from);
}

template <typename Vector>
DING_INLINE void Store(const Vector& vector, float* to) {
  *reinterpret_cast<UnalignedVector<Vector>*>(to) = vector;
}

// x = tanh(x) by Eigen's rational minimax approximation in single precision (odd polynomial of
// degree 13 over even polynomial of degree 6 on [-7.9, 7.9]); within 3e-7 of std::tanh. NaN stays
// NaN.
template <typename Vector>
DING_INLINE void ApplyTanh(Vector& x) {
  constexpr float kBound = 7.90531110763549805f;
  constexpr float kNumerator[] = {
      -2.76076847742355e-16f, 2.00018790482477e-13f, -8.60467152213735e-11f, 5.12229709037114e-08f,
      1.48572235717979e-05f,  6.37261928875436e-04f, 4.89352455891786e-03f};
  constexpr float kDenominator[] = {1.19825839466702e-06f, 1.18534705686654e-04f,
                                    2.26843463243900e-03f, 4.89352518554385e-03f};
  x = x > kBound ? Vector{} + kBound : x;
  x = x < -kBound ? Vector{} - kBound : x;
  const Vector x2 = x * x;
  Vector numerator = Vector{} + kNumerator[0];
  for (int n = 1; n < 7; ++n) numerator = numerator * x2 + kNumerator[n];
  Vector denominator = Vector{} + kDenominator[0];
  for (int n = 1; n < 4; ++n) denominator = denominator * x2 + kDenominator[n];
  x = x * numerator / denominator;
}

// x = 1 / (1 + exp(-x)) = (1 + tanh(x / 2)) / 2; within 2e-7 of the true value.
template <typename Vector>
DING_INLINE void ApplySigmoid(Vector& x) {
  x = x * 0.5f;
  ApplyTanh(x);
  x = x * 0.5f + 0.5f;
}

// x = exp(x) for x in [-87, 88], to which other values are clipped, by Cephes' expf: e^x = 2^n e^r
// with |r| <= log(2) / 2, and a polynomial in r; within 2e-7 of the true value, relatively. NaN
// stays NaN.
template <typename Vector>
DING_INLINE void ApplyExp(Vector& x) {
  constexpr float kLog2E = 1.44269504088896341f;
  constexpr float kLn2High = 0.693359375f;
  constexpr float kLn2Low = -2.12194440e-4f;
  constexpr float kPolynomial[] = {1.9875691500e-4f, 1.3981999507e-3f, 8.3334519073e-3f,
                                   4.1665795894e-2f, 1.6666665459e-1f, 5.0000001201e-1f};
  constexpr float kRounder =
      12582912.0f;  // 1.5 * 2^23: adding a number to it rounds that number to an integer
  x = x > 88.0f ? Vector{} + 88.0f : x;
  x = x < -87.0f ? Vector{} - 87.0f : x;
  const Vector rounded = x * kLog2E + kRounder;
  const Vector n = rounded - kRounder;
  const Vector r = x - n * kLn2High - n * kLn2Low;
  Vector polynomial = Vector{} + kPolynomial[0];
  for (int i = 1; i < 6; ++i) polynomial = polynomial * r + kPolynomial[i];
  polynomial = polynomial * r * r + r + 1.0f;
  // The low bits of `rounded` are n; moved to the exponent they make 2^n.
  const auto power = ((IntegerVector<Vector>)rounded << 23) + 0x3f800000;
  x = polynomial * (Vector)power;
}

}  // namespace ding::internal_mlp

#endif  // DING_WORKER_POLICY_MLP_VECTOR_TYPES_H_
