// SPDX-License-Identifier: Apache-2.0
// Preemption in whole units of each resource (cpu in thousandths), as in kubelet; only the distance
// that selects pods is a floating point number, also as in kubelet.
#include "policy/preemption.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <limits>
#include <tuple>

#include "policy/pod_facts.h"
#include "policy/pod_requests.h"
#include "policy/qos.h"
#include "policy/saturating.h"

namespace forestall::policy {
namespace {

// In the order in which kubelet checks them (pkg/scheduler/framework/plugins/noderesources/fit.go
// fitsRequest).
constexpr std::array<std::string_view, 4> kResources{"pods", "cpu", "memory", "ephemeral-storage"};
constexpr std::size_t kCpu = 1;
constexpr std::size_t kMemory = 2;
using Amounts = std::array<std::int64_t, kResources.size()>;

std::int64_t whole_of(const std::optional<Quantity>& amount) {
  return amount ? amount->value() : 0;
}

// Rounded up to thousandths (Quantity.MilliValue).
std::int64_t milli_of(const std::optional<Quantity>& cores) {
  if (!cores) return 0;
  constexpr __int128 kNanosPerMilli = 1'000'000;
  const __int128 milli =
      cores->nanos / kNanosPerMilli + (cores->nanos % kNanosPerMilli > 0 ? 1 : 0);
  using Int64 = std::numeric_limits<std::int64_t>;
  return static_cast<std::int64_t>(std::clamp<__int128>(milli, Int64::min(), Int64::max()));
}

std::int64_t plus(std::int64_t a, std::int64_t b) {
  return add(Bytes{a}, Bytes{b}).count;
}

std::int64_t minus(std::int64_t a, std::int64_t b) {
  return subtract(Bytes{a}, Bytes{b}).count;
}

Amounts requests_of(const Pod& pod) {
  const ResourceList requests = pod_requests(pod);
  return {1, milli_of(requests.cpu), whole_of(requests.memory),
          whole_of(requests.ephemeral_storage)};
}

struct Choice {
  std::size_t index = 0;  // into the active pods
  const Pod* pod = nullptr;
  Amounts requests{};
};
using Choices = std::vector<Choice>;

// The lacking amount by resource; 0 or less: nothing is lacking.
Amounts minus_requests(Amounts lacking, const Choices& gone) {
  for (const Choice& each : gone) {
    for (std::size_t i = 0; i < lacking.size(); ++i)
      lacking[i] = minus(lacking[i], each.requests[i]);
  }
  return lacking;
}

bool met(const Amounts& lacking) {
  return std::all_of(lacking.begin(), lacking.end(), [](std::int64_t each) { return each <= 0; });
}

double distance(const Amounts& lacking, const Amounts& requests) {
  double sum = 0;
  for (std::size_t i = 0; i < lacking.size(); ++i) {
    if (lacking[i] <= 0) continue;
    const std::int64_t unmet = minus(lacking[i], requests[i]);
    if (unmet <= 0) continue;
    const double fraction = static_cast<double>(unmet) / static_cast<double>(lacking[i]);
    sum += fraction * fraction;
  }
  return sum;
}

bool better(const Amounts& lacking, const Choice& a, const Choice& b) {
  const double to_a = distance(lacking, a.requests);
  const double to_b = distance(lacking, b.requests);
  if (to_a != to_b) return to_a < to_b;
  const auto order = [](const Choice& each) {
    return std::tie(each.requests[kMemory], each.requests[kCpu], each.pod->pod_namespace,
                    each.pod->name, each.pod->uid);
  };
  return order(a) < order(b);
}

// The pods of one class that are needed to cover `lacking`, in order of selection. REQUIRES: all of
// them together cover it; preempt() ensures that.
Choices nearest(Choices from, Amounts lacking) {
  Choices chosen;
  while (!met(lacking) && !from.empty()) {
    const auto best =
        std::min_element(from.begin(), from.end(),
                         [&](const Choice& a, const Choice& b) { return better(lacking, a, b); });
    chosen.push_back(*best);
    from.erase(best);
    lacking = minus_requests(lacking, {chosen.back()});
  }
  return chosen;
}

Choices together(Choices a, const Choices& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

std::int64_t bound(const std::optional<std::int64_t>& limit) {
  return limit.value_or(std::numeric_limits<std::int64_t>::max());
}

// A resource that the incoming pod does not request is never lacking.
Amounts lacking_for(const Pod& incoming, const Choices& active, const Allocatable& allocatable) {
  const ResourceList& resources = allocatable.resources;
  std::optional<std::int64_t> cpu;
  std::optional<std::int64_t> memory;
  std::optional<std::int64_t> storage;
  if (resources.cpu) cpu = milli_of(resources.cpu);
  if (resources.memory) memory = resources.memory->value();
  if (resources.ephemeral_storage) storage = resources.ephemeral_storage->value();
  const Amounts bounds{bound(allocatable.pods), bound(cpu), bound(memory), bound(storage)};

  Amounts lacking = requests_of(incoming);
  for (std::size_t i = 0; i < lacking.size(); ++i) {
    if (lacking[i] <= 0) continue;
    for (const Choice& each : active) lacking[i] = plus(lacking[i], each.requests[i]);
    lacking[i] = minus(lacking[i], bounds[i]);
  }
  return lacking;
}

Choices of_class(const Choices& choices, QosClass qos) {
  Choices found;
  std::copy_if(choices.begin(), choices.end(), std::back_inserter(found),
               [qos](const Choice& each) { return qos_class(*each.pod) == qos; });
  return found;
}

}  // namespace

bool may_preempt(const Pod& preemptor, const Pod& other) {
  if (is_critical(preemptor) && !is_critical(other)) return true;
  return preemptor.priority && other.priority && *preemptor.priority > *other.priority;
}

std::optional<Preemption> preempt(const Pod& incoming,
                                  std::span<const std::shared_ptr<const Pod>> active,
                                  const Allocatable& allocatable) {
  if (!is_critical(incoming)) return std::nullopt;
  Choices all;
  Choices preemptable;
  for (std::size_t i = 0; i < active.size(); ++i) {
    all.push_back({i, active[i].get(), requests_of(*active[i])});
    if (may_preempt(incoming, *active[i])) preemptable.push_back(all.back());
  }
  const Amounts lacking = lacking_for(incoming, all, allocatable);
  if (met(lacking)) return Preemption{};
  if (!met(minus_requests(lacking, preemptable))) return std::nullopt;

  const Choices best_effort = of_class(preemptable, QosClass::best_effort);
  const Choices burstable = of_class(preemptable, QosClass::burstable);
  const Choices guaranteed = nearest(of_class(preemptable, QosClass::guaranteed),
                                     minus_requests(lacking, together(best_effort, burstable)));
  const Choices of_burstable =
      nearest(burstable, minus_requests(lacking, together(best_effort, guaranteed)));
  const Choices of_best_effort =
      nearest(best_effort, minus_requests(lacking, together(of_burstable, guaranteed)));

  Preemption result;
  for (const Choice& each : together(together(of_best_effort, of_burstable), guaranteed)) {
    result.victims.push_back(each.index);
  }
  const auto first =
      std::find_if(lacking.begin(), lacking.end(), [](std::int64_t each) { return each > 0; });
  result.metric_signal = kResources[static_cast<std::size_t>(first - lacking.begin())];
  return result;
}

}  // namespace forestall::policy
