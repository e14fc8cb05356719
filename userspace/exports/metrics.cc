// SPDX-License-Identifier: Apache-2.0
#include "exports/metrics.h"

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <limits>
#include <mutex>
#include <vector>

#include "exports/counter_table.h"
#include "exports/process_metrics.h"

namespace forestall::exports {
namespace {

using prometheus::MetricFamily;
using prometheus::MetricType;

// One value more than the kernel's constraints, for a constraint that the kernel did not report.
Label constraint_label() {
  Label label = label_of<Constraint>("constraint");
  label.values.emplace_back("unknown");
  return label;
}

std::size_t place_of_constraint(const std::optional<Constraint>& constraint) {
  return place_of(constraint.value_or(static_cast<Constraint>(place_of(Constraint::memcg) + 1)));
}

// The cause of a pod's eviction, as in kubelet's label (pkg/kubelet/eviction/eviction_manager.go):
// a signal, or one of the limits on local storage.
Label eviction_signals() {
  Label label = label_of<Signal>("eviction_signal");
  for (std::size_t i = place_of(EvictionCause::empty_dir_limit);
       !to_string(static_cast<EvictionCause>(i)).empty(); ++i) {
    label.values.emplace_back(to_string(static_cast<EvictionCause>(i)));
  }
  return label;
}

enum class Foretold : std::uint8_t { right, wrong, none };
const std::vector<std::string> kForetold{"right", "wrong", "none"};

Foretold foretold(const OomKill& kill) {
  if (!kill.foresight) return Foretold::none;
  return kill.foresight->right ? Foretold::right : Foretold::wrong;
}

const Label kYesOrNo{"dry_run", {"false", "true"}};

// A path as a label value: Prometheus rejects a whole scrape for one value that is not UTF-8, and
// the creator of a cgroup chooses its name.
std::string plain(std::string_view path) {
  std::string text;
  for (const char c : path) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x20 && byte < 0x7f) {
      text += c;
    } else {
      text += fmt::format("\\x{:02x}", byte);
    }
  }
  return text;
}

// The amounts available to each subject, as of one evaluation.
class Amounts final : public prometheus::Collectable {
 public:
  Amounts() {
    for (std::vector<Amount>* each : {&shared_, &copied_}) each->reserve(Metrics::kSubjectsMax);
  }

  // Loop's thread. Keeps the old amounts while a reader holds the lock.
  void put(const std::vector<Evidence>& evidence) {
    const std::unique_lock lock(mutex_, std::try_to_lock);
    if (!lock) return;
    const std::size_t told = std::min(evidence.size(), Metrics::kSubjectsMax);
    shared_.resize(told);
    for (std::size_t i = 0; i < told; ++i) {
      shared_[i].signal = evidence[i].threshold.signal;
      shared_[i].subject = evidence[i].subject;
      shared_[i].available = evidence[i].available;
    }
    left_out_ = evidence.size() - told;
  }

  [[nodiscard]] std::vector<MetricFamily> Collect() const override {
    const std::lock_guard reading(reading_);
    std::size_t left_out = 0;
    {
      // Copies into strings of the reader's own, so that this neither allocates nor frees the
      // loop's memory.
      const std::lock_guard lock(mutex_);
      copied_ = shared_;
      left_out = left_out_;
    }
    std::vector<MetricFamily> families = empty_families();
    for (const Amount& each : copied_)
      add(families[static_cast<std::size_t>(unit_of(each.signal))], each);
    std::erase_if(families, [](const MetricFamily& family) { return family.metric.empty(); });
    MetricFamily rest{"forestall_signal_subjects_left_out",
                      "Thresholds without amounts because there are too many subjects.",
                      MetricType::Gauge,
                      {}};
    rest.metric.emplace_back().gauge.value = static_cast<double>(left_out);
    families.push_back(std::move(rest));
    return families;
  }

 private:
  struct Amount {
    Signal signal = Signal::memory_available;
    std::string subject;
    std::int64_t available = 0;
  };

  static std::vector<MetricFamily> empty_families() {
    // In the order of Unit.
    static const std::array<const char*, 3> kUnits{"bytes", "inodes", "processes"};
    std::vector<MetricFamily> families;
    for (const char* unit : kUnits) {
      families.push_back({std::string("forestall_signal_available_") + unit,
                          "Amount of the signal available to the subject at the last evaluation.",
                          MetricType::Gauge,
                          {}});
    }
    return families;
  }

  // Several thresholds of one signal on one subject share one amount.
  static void add(MetricFamily& family, const Amount& amount) {
    prometheus::ClientMetric metric;
    metric.label = {{"signal", std::string(to_string(amount.signal))},
                    {"subject", plain(amount.subject)}};
    metric.gauge.value = static_cast<double>(amount.available);
    const bool told = std::ranges::any_of(
        family.metric, [&](const auto& each) { return each.label == metric.label; });
    if (!told) family.metric.push_back(std::move(metric));
  }

  mutable std::mutex reading_;  // among readers; never locked by the loop
  mutable std::vector<Amount> copied_;
  mutable std::mutex mutex_;  // between a reader and the loop, which only tries it
  std::vector<Amount> shared_;
  std::size_t left_out_ = 0;
};

// 1, 2 and 5 of each decade, about as many as in every client library.
bool is_told(std::size_t bound) {
  return bound % 10 == 0 || bound % 10 == 3 || bound % 10 == 7;
}

prometheus::ClientMetric stage_metric(const StageHistograms& stages, Stage stage) {
  prometheus::ClientMetric metric;
  metric.label = {{"stage", std::string(to_string(stage))}};
  std::uint64_t last = 0;
  for (std::size_t i = 0; i < StageHistograms::kBounds; ++i) {
    if (!is_told(i)) continue;
    const Duration bound = StageHistograms::bounds()[i];
    // Counting goes on concurrently: a bucket must not be smaller than the previous one.
    last = std::max(last, stages.within(stage, bound));
    metric.histogram.bucket.push_back({last, std::chrono::duration<double>(bound).count()});
  }
  const StageSummary summary = stages.summary(stage);
  metric.histogram.sample_count = std::max(last, summary.count);
  metric.histogram.sample_sum = std::chrono::duration<double>(summary.sum).count();
  metric.histogram.bucket.push_back(
      {metric.histogram.sample_count, std::numeric_limits<double>::infinity()});
  return metric;
}

MetricFamily stage_family(const StageHistograms& stages) {
  MetricFamily family{"forestall_stage_duration_seconds",
                      "Duration of each stage of a kill: up to the signal since the previous "
                      "stage, then since the signal.",
                      MetricType::Histogram,
                      {}};
  for (std::size_t i = 0; i < kStageCount; ++i) {
    family.metric.push_back(stage_metric(stages, static_cast<Stage>(i)));
  }
  return family;
}

MetricFamily count_family(const char* name, const char* help, std::uint64_t count) {
  MetricFamily family{name, help, MetricType::Counter, {}};
  family.metric.emplace_back().counter.value = static_cast<double>(count);
  return family;
}

MetricFamily bpf_family(const BpfCounts& counts) {
  MetricFamily family{
      "forestall_bpf_events_total",
      "Events counted by the BPF programs, by BPF object, counter and kind of event "
      "or failure.",
      MetricType::Counter,
      {}};
  for (const BpfCounter& each : counts.all()) {
    prometheus::ClientMetric& metric = family.metric.emplace_back();
    metric.label = {{"object", std::string(each.object)}, {"counter", std::string(each.counter)}};
    if (!each.kind.empty()) metric.label.push_back({"kind", std::string(each.kind)});
    metric.counter.value = static_cast<double>(each.value);
  }
  return family;
}

void add_drops(const DropCounts& drops, std::vector<MetricFamily>& all) {
  all.push_back(count_family("forestall_log_lines_dropped_total",
                             "Log lines dropped because their reader was too slow.",
                             drops.log_lines()));
  all.push_back(bpf_family(drops.bpf));
  all.push_back(count_family("forestall_bpf_counter_read_errors_total",
                             "Failed reads of the BPF programs' counters.", drops.bpf_read_errors));
  all.push_back(count_family("forestall_oom_tellings_late_total",
                             "OOM events received after the kill was recorded.",
                             drops.late_tellings));
  all.push_back(count_family("forestall_watch_messages_dropped_total",
                             "Records and events that gRPC watch clients missed.", drops.untold));
  all.push_back(count_family("forestall_recording_entries_lost_total",
                             "Recording entries without space in the queue.",
                             drops.recording_entries));
  all.push_back(count_family("forestall_live_viewers_dropped_total",
                             "Status-page clients disconnected because they were too slow.",
                             drops.live_viewers));
}

void add_grpc(const GrpcCounts& counts, std::vector<MetricFamily>& all) {
  all.push_back(count_family("forestall_grpc_connections_total",
                             "Connections accepted at the gRPC socket.", counts.connections));
  all.push_back(count_family("forestall_grpc_connections_refused_total",
                             "Connections refused at the gRPC socket: not permitted, or too many.",
                             counts.refused));
  all.push_back(count_family("forestall_grpc_calls_total", "gRPC calls started.", counts.calls));
  all.push_back(count_family("forestall_grpc_slow_readers_total",
                             "gRPC calls ended because the client was too slow.",
                             counts.slow_readers));
}

constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::min();

}  // namespace

class Metrics::Families {
 public:
  Families(std::string_view version, Tier tier, Recorders recorders)
      : recorders_(recorders),
        looks_(counters("forestall_looks_total", "Evaluations of the loop, by wake source."),
               {label_of<WakeSource>("wake")}),
        decisions_(counters("forestall_decisions_total",
                            "Recorded decisions. A decision that repeats the previous one is not "
                            "recorded; each eviction counts separately."),
                   {label_of<Action>("action"), label_of<Reason>("reason")}),
        kills_(counters("forestall_kills_total",
                        "Kills by final state. A stuck kill counts again if its memory is freed "
                        "later."),
               {label_of<KillState>("state"), kYesOrNo}),
        kernel_kills_(
            counters("forestall_kernel_oom_kills_total",
                     "Kills by the kernel's OOM killer, by allocation constraint, by the reason "
                     "why the agent had not acted before, and by whether the victim was predicted "
                     "(right, wrong, none: no prediction)."),
            {constraint_label(), label_of<Inaction>("inaction"), {"predicted", kForetold}}),
        evictions_(
            counters("kubelet_evictions", "Cumulative number of pod evictions by eviction signal"),
            {eviction_signals()}),
        eviction_signals_(eviction_signals().values),
        freed_(counters("forestall_freed_bytes_total", "Memory freed by killed victims, in bytes.")
                   .Add({})) {
    auto& conditions = prometheus::BuildGauge()
                           .Name("forestall_condition")
                           .Help("State of the node condition, 1 while it is reported.")
                           .Register(registry_);
    for (std::size_t i = 0; i < kConditions.size(); ++i) {
      conditions_[i] = &conditions.Add({{"type", std::string(to_string(kConditions[i]))}});
    }
    prometheus::BuildGauge()
        .Name("forestall_build_info")
        .Help("Version of Forestall and tier of kernel facilities in use.")
        .Register(registry_)
        .Add({{"version", std::string(version)}, {"tier", std::string(to_string(tier))}})
        .Set(1);
  }

  void count(const Record& record) {
    if (record.oom_kill) {
      kernel_kills_.count({place_of_constraint(record.oom_kill->sighting.constraint),
                           place_of(record.oom_kill->inaction),
                           place_of(foretold(*record.oom_kill))});
    } else if (record.outcome) {
      count_outcome(*record.outcome);
      count_eviction(record);
    } else {
      decisions_.count({place_of(record.decision.action), place_of(record.decision.reason)});
    }
  }

  void looked(const Look& look) {
    looks_.count({place_of(look.observation.wake.source)});
    for (std::size_t i = 0; i < kConditions.size(); ++i) {
      conditions_[i]->Set(look.decision.conditions[i].status ? 1 : 0);
    }
    amounts_.put(look.decision.evidence);
    next_look_ = to_ns(look.next);
  }

  [[nodiscard]] std::string text() const {
    std::vector<MetricFamily> all = registry_.Collect();
    for (const prometheus::Collectable* each :
         std::initializer_list<const prometheus::Collectable*>{&amounts_, &process_}) {
      for (MetricFamily& family : each->Collect()) all.push_back(std::move(family));
    }
    if (recorders_.stages != nullptr) all.push_back(stage_family(*recorders_.stages));
    if (recorders_.drops != nullptr) add_drops(*recorders_.drops, all);
    if (recorders_.grpc != nullptr) add_grpc(*recorders_.grpc, all);
    // Sorted for human readers; Prometheus does not require it.
    std::ranges::sort(all, {}, &MetricFamily::name);
    for (MetricFamily& family : all) {
      std::ranges::sort(family.metric,
                        [](const auto& a, const auto& b) { return a.label < b.label; });
    }
    return prometheus::TextSerializer().Serialize(all);
  }

  [[nodiscard]] bool alive(MonotonicTime now) const {
    const std::int64_t next = next_look_;
    return next != kNever && now <= from_ns(next) + kSlack;
  }

 private:
  prometheus::Family<prometheus::Counter>& counters(const char* name, const char* help) {
    return prometheus::BuildCounter().Name(name).Help(help).Register(registry_);
  }

  void count_outcome(const Outcome& outcome) {
    kills_.count({place_of(outcome.state), outcome.dry_run ? 1U : 0U});
    if (outcome.dry_run || outcome.state != KillState::released) return;
    if (outcome.freed.count > 0) freed_.Increment(static_cast<double>(outcome.freed.count));
  }

  // Kubelet counts pods that it ended, each once; a stuck kill has two outcomes.
  void count_eviction(const Record& record) {
    const Outcome& outcome = *record.outcome;
    const bool again = std::erase(stuck_, record.sequence) > 0;
    if (outcome.state == KillState::stuck) {
      if (stuck_.size() == kStuckMax) stuck_.erase(stuck_.begin());
      stuck_.push_back(record.sequence);
    }
    const bool ended = outcome.state == KillState::released || outcome.state == KillState::stuck;
    const bool of_a_pod = outcome.victim.kind == WorkloadKind::pod;
    if (again || !ended || !of_a_pod || outcome.dry_run) return;
    if (record.decision.evictions.empty()) return;
    const auto place =
        std::ranges::find(eviction_signals_, record.decision.evictions.front().metric_signal);
    if (place == eviction_signals_.end()) return;
    evictions_.count({static_cast<std::size_t>(place - eviction_signals_.begin())});
  }

  // Few kills are stuck at the same time; with more than this, one may count twice.
  static constexpr std::size_t kStuckMax = 64;

  Recorders recorders_;
  prometheus::Registry registry_;
  CounterTable looks_;
  CounterTable decisions_;
  CounterTable kills_;
  CounterTable kernel_kills_;
  CounterTable evictions_;
  std::vector<std::string> eviction_signals_;
  std::vector<std::uint64_t> stuck_;  // sequences of records; the loop's
  prometheus::Counter& freed_;
  std::array<prometheus::Gauge*, kConditions.size()> conditions_{};
  Amounts amounts_;
  ProcessMetrics process_;
  std::atomic<std::int64_t> next_look_{kNever};
};

Metrics::Metrics(std::string_view version, Tier tier, Recorders recorders)
    : families_(std::make_unique<Families>(version, tier, recorders)) {}

Metrics::~Metrics() = default;

void Metrics::write(const Record& record) {
  families_->count(record);
}

void Metrics::looked(const Look& look) {
  families_->looked(look);
}

std::string Metrics::text() const {
  return families_->text();
}

bool Metrics::alive(MonotonicTime now) const {
  return families_->alive(now);
}

}  // namespace forestall::exports
