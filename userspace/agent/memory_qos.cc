// SPDX-License-Identifier: Apache-2.0
#include "agent/memory_qos.h"

#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <limits>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "actuators/event_wait.h"
#include "base/blocked_signals.h"
#include "base/parse.h"
#include "base/start_thread.h"
#include "kernel/memory_files.h"
#include "kernel/scheduling.h"
#include "policy/saturating.h"
#include "sources/container_reader.h"

namespace forestall::agent {
namespace {

// The cgroup with this identity; a removed or replaced one is left out.
Result<kernel::CgroupDir> open_same(const kernel::CgroupTree& tree, const std::string& path,
                                    CgroupId cgroup) {
  auto opened = TRY(tree.open(path));
  if (opened.id() != cgroup) return Error{ENODEV, path + " was removed"};
  return opened;
}

// Of a pod that cannot be listed there are none.
void add_containers(const kernel::CgroupTree& tree, policy::QosPodCgroup& pod) {
  auto containers = sources::find_containers(tree, pod.path, pod.cgroup);
  if (!containers) return;
  for (sources::ContainerCgroup& each : *containers) {
    std::string id(sources::container_id(each.name));
    pod.containers.push_back({std::move(each.path), each.cgroup, std::move(id)});
  }
}

constexpr Bytes kMax{std::numeric_limits<std::int64_t>::max()};

Result<Bytes> amount_in(const kernel::CgroupTree& tree, const std::string& path,
                        MemoryQosFile file) {
  const auto cgroup = TRY(tree.open(path));
  const auto text = TRY(cgroup.read(to_string(file)));
  const auto amount = TRY(kernel::parse_amount(text));
  return amount.value_or(kMax);
}

// 0 if it cannot be read.
std::int64_t protected_by(const kernel::CgroupTree& tree, const std::string& path,
                          MemoryQosFile file) {
  const auto amount = amount_in(tree, path, file);
  return amount ? amount->count : 0;
}

std::vector<policy::QosOtherCgroup> find_others(const kernel::CgroupTree& tree,
                                                const MemoryQosFacts& facts) {
  const policy::QosLevelCgroups levels = policy::qos_level_cgroups(facts.cgroups);
  std::vector<std::string> paths{levels.pods, levels.burstable};
  for (const MemoryQosCgroup& each : facts.config.cgroups) paths.push_back(each.path);
  std::vector<policy::QosOtherCgroup> found;
  for (std::string& each : paths) {
    if (each.empty()) continue;
    if (const auto cgroup = tree.id_at(each)) found.push_back({std::move(each), *cgroup});
  }
  return found;
}

// The cgroups whose memory.min is planned, apart from pods.
std::set<std::string> planned_min_paths(const MemoryQosFacts& facts) {
  std::set<std::string> paths;
  for (const MemoryQosCgroup& each : facts.config.cgroups) {
    if (each.min) paths.insert(each.path);
  }
  if (facts.config.reservation == MemoryReservation::tiered &&
      facts.config.kubelet_reserves == false) {
    paths.insert(policy::qos_level_cgroups(facts.cgroups).pods);
  }
  return paths;
}

struct PresentMin {
  std::optional<std::int64_t> of_others = 0;  // nothing: it cannot be read
  std::vector<policy::MemoryQosPresentMin> planned;
};

bool is_not_written(const kernel::CgroupTree& tree, const std::string& path,
                    const actuators::MemoryReserveWriter* writer) {
  const auto cgroup = tree.id_at(path);
  if (!cgroup || writer == nullptr) return false;
  const auto* outcome = writer->outcome(*cgroup, MemoryQosFile::min);
  return outcome != nullptr &&
         (outcome->state == MemoryQosState::left || outcome->state == MemoryQosState::failed);
}

// memory.min of the cgroups below the root. One without the file has none.
PresentMin present_min(const kernel::CgroupTree& tree, const MemoryQosFacts& facts,
                       const actuators::MemoryReserveWriter* writer) {
  const std::set<std::string> planned = planned_min_paths(facts);
  PresentMin result;
  const auto root = tree.open("/");
  const auto names = root ? root->children() : root.error();
  if (!names) return {std::nullopt, {}};
  for (const std::string& name : *names) {
    const std::string path = "/" + name;
    const auto present = amount_in(tree, path, MemoryQosFile::min);
    if (!present && !kernel::is_removed(present.error())) return {std::nullopt, {}};
    if (!present) continue;
    if (planned.contains(path)) {
      result.planned.push_back({path, present->count, is_not_written(tree, path, writer)});
    } else {
      result.of_others = policy::add({*result.of_others}, *present).count;
    }
  }
  return result;
}

// The values of memory.high, or all others.
std::vector<actuators::MemoryReserve> reserves_of(
    const std::vector<policy::PlannedMemoryQos>& planned, bool high) {
  std::vector<actuators::MemoryReserve> reserves;
  for (const policy::PlannedMemoryQos& each : planned) {
    if (!each.left.empty() || (each.file == MemoryQosFile::high) != high) continue;
    reserves.push_back({each.path, each.cgroup, each.file, Bytes{each.value}});
  }
  return reserves;
}

// The state of a value that may be written and is not present.
void set_state(MemoryQosValue& value, const policy::PlannedMemoryQos& planned, bool dry_run,
               const std::optional<actuators::ReserveOutcome>& outcome) {
  if (!planned.left.empty()) {
    value.state = MemoryQosState::left;
    value.reason = planned.left;
  } else if (!outcome) {
    value.state = MemoryQosState::would_write;
    value.reason = dry_run ? "dry run" : planned.note;
  } else if (outcome->state == MemoryQosState::written) {
    value.state = MemoryQosState::left;  // changed since the write
    value.reason = "another process has written it since";
  } else {
    value.state = outcome->state;
    value.reason = outcome->reason;
  }
}

class ReportedValues {
 public:
  ReportedValues(const kernel::CgroupTree& tree, const MemoryQosFacts& facts,
                 const MemoryQosWriters& writers)
      : tree_(tree),
        dry_run_(facts.dry_run && facts.config.mode == MemoryQosMode::enforce),
        writers_(writers) {}

  [[nodiscard]] MemoryQosValue value_of(const policy::PlannedMemoryQos& planned) {
    MemoryQosValue value{planned.subject, planned.path, planned.file, {}, planned.value};
    const auto cgroup = open_same(tree_, planned.path, planned.cgroup);
    const auto text = cgroup ? cgroup->read(to_string(planned.file)) : cgroup.error();
    if (!text) {
      value.state = MemoryQosState::failed;
      value.reason = text.error().text();
      return value;
    }
    value.present = trim(*text);
    const auto outcome = outcome_of(planned);
    if (value.present != std::to_string(planned.value)) {
      set_state(value, planned, dry_run_, outcome);
      return value;
    }
    value.state = MemoryQosState::equal;
    if (planned.left.empty() && outcome && outcome->state == MemoryQosState::written) {
      value.state = MemoryQosState::written;
      value.reason = outcome->reason;
      if (!planned.note.empty()) value.reason = planned.note;
      if (value.reason.empty() && planned.file != MemoryQosFile::high) {
        value.reason = limit_of(planned);
      }
    }
    return value;
  }

 private:
  [[nodiscard]] std::optional<actuators::ReserveOutcome> outcome_of(
      const policy::PlannedMemoryQos& planned) const {
    if (planned.file == MemoryQosFile::high) {
      return writers_.high != nullptr ? writers_.high->outcome(planned.cgroup) : std::nullopt;
    }
    const auto* outcome = writers_.reserves != nullptr
                              ? writers_.reserves->outcome(planned.cgroup, planned.file)
                              : nullptr;
    return outcome == nullptr ? std::nullopt : std::optional(*outcome);
  }

  // The parents of a cgroup limit what its own value protects: the nearest one with less.
  std::string limit_of(const policy::PlannedMemoryQos& planned) {
    std::string_view path = planned.path;
    for (auto end = path.rfind('/'); end != std::string_view::npos && end > 0;
         end = path.rfind('/')) {
      path = path.substr(0, end);
      const std::int64_t grants = granted_by(std::string(path), planned.file);
      if (grants < planned.value) {
        return "limited by " + std::string(path) + ", which has " + std::to_string(grants);
      }
    }
    return {};
  }

  // A low value is also covered by memory.min: the kernel divides what of it no child has claimed.
  std::int64_t granted_by(const std::string& path, MemoryQosFile file) {
    const auto [found, is_new] = grants_.try_emplace({path, file}, 0);
    if (!is_new) return found->second;
    std::int64_t grants = protected_by(tree_, path, file);
    if (file == MemoryQosFile::low) {
      grants = std::max(grants, protected_by(tree_, path, MemoryQosFile::min));
    }
    return grants_[{path, file}] = grants;
  }

  const kernel::CgroupTree& tree_;
  const bool dry_run_;
  const MemoryQosWriters writers_;
  std::map<std::pair<std::string, MemoryQosFile>, std::int64_t> grants_;
};

template <typename Writer>
void add_not_restored(const Writer& writer, MemoryQosReport& report) {
  for (const auto& [reserve, problem] : writer.not_restored()) {
    MemoryQosValue& value = report.values.emplace_back();
    value.subject = value.path = reserve.path;
    value.file = reserve.file;
    value.wanted = reserve.value.count;
    value.state = MemoryQosState::failed;
    value.reason = "not restored: " + problem;
  }
  report.rewrites += writer.rewrites();
}

}  // namespace

bool enforces_memory_qos(const kernel::CgroupTree& tree, const MemoryQosConfig& config,
                         bool dry_run) {
  return tree.version() == kernel::CgroupVersion::v2 && config.mode == MemoryQosMode::enforce &&
         !dry_run;
}

MemoryQosReport observe_memory_qos(const kernel::CgroupTree& tree, const MemoryQosFacts& facts,
                                   MemoryQosWriters writers, MonotonicTime now) {
  MemoryQosReport report;
  report.mode = facts.config.mode;
  report.unknown_pods = facts.unknown_pods;
  if (tree.version() != kernel::CgroupVersion::v2) {
    report.problem =
        "cgroup v1 has no memory.min, memory.low and memory.high; its soft limit protects nothing "
        "and is not written";
    return report;
  }
  std::vector<policy::QosPodCgroup> cgroups = facts.cgroups;
  for (policy::QosPodCgroup& each : cgroups) add_containers(tree, each);
  const auto others = find_others(tree, facts);
  const auto plan = [&] {
    const PresentMin present = present_min(tree, facts, writers.reserves);
    return policy::plan_memory_qos({.config = facts.config,
                                    .node_allocatable = facts.node_allocatable,
                                    .min_limit = facts.min_limit,
                                    .min_of_others = present.of_others,
                                    .present_min = present.planned,
                                    .page_size = ::sysconf(_SC_PAGESIZE),
                                    .pods = facts.pods,
                                    .cgroups = cgroups,
                                    .others = others});
  };
  auto planned = plan();
  if (writers.reserves != nullptr) {
    const auto write = [&] {
      writers.reserves->apply(reserves_of(planned, false), now, facts.unknown_pods > 0);
    };
    write();
    // What could not be written, or has been restored, leaves more or less to the others.
    if (auto next = plan(); next != planned) {
      planned = std::move(next);
      write();
    }
  }
  if (writers.high != nullptr) {
    writers.high->apply(reserves_of(planned, true), {policy::kThrottleStallMax, facts.lift_reserve},
                        now);
  }
  ReportedValues values(tree, facts, writers);
  for (const policy::PlannedMemoryQos& each : planned) {
    report.values.push_back(values.value_of(each));
  }
  if (writers.reserves != nullptr) add_not_restored(*writers.reserves, report);
  if (writers.high != nullptr) {
    add_not_restored(*writers.high, report);
    report.lifts = writers.high->lifts();
  }
  return report;
}

Result<std::unique_ptr<MemoryQosThread>> MemoryQosThread::create(const kernel::CgroupTree& tree,
                                                                 Records records,
                                                                 exports::Log& log) {
  UniqueFd changed(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!changed) return errno_error("eventfd", "for memory QoS");
  return std::unique_ptr<MemoryQosThread>(
      new MemoryQosThread(tree, records, log, std::move(changed)));
}

MemoryQosThread::~MemoryQosThread() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  ::eventfd_write(changed_.get(), 1);
  thread_.join();
}

Result<void> MemoryQosThread::update(MemoryQosFacts facts) {
  if (facts.config.mode == MemoryQosMode::off && !thread_.joinable()) return {};
  if (!thread_.joinable()) {
    const base::BlockedSignals none_for_the_thread;
    thread_ = TRY(start_thread("forestall-qos", [this] { serve(); }));
  }
  auto next = std::make_shared<const MemoryQosFacts>(std::move(facts));
  {
    const std::lock_guard lock(mutex_);
    facts_.swap(next);
    changed_facts_ = true;
  }
  ::eventfd_write(changed_.get(), 1);
  return {};
}

std::shared_ptr<const MemoryQosReport> MemoryQosThread::report() const {
  const std::lock_guard lock(mutex_);
  return report_;
}

std::shared_ptr<const MemoryQosFacts> MemoryQosThread::take_facts() {
  const std::lock_guard lock(mutex_);
  return std::exchange(changed_facts_, false) ? facts_ : nullptr;
}

bool MemoryQosThread::has_to_stop() const {
  const std::lock_guard lock(mutex_);
  return stop_;
}

void MemoryQosThread::log_problem(const std::string& problem) {
  log_.write(exports::LogLevel::warning, exports::LogLine("memory-qos").field("problem", problem));
}

std::shared_ptr<const MemoryQosReport> MemoryQosThread::carry_out(const MemoryQosFacts& facts,
                                                                  Writing& writing) {
  const bool writes = enforces_memory_qos(tree_, facts.config, facts.dry_run);
  if (!writes && writing.reserves) stop_writing(writing);
  if (facts.config.mode == MemoryQosMode::off) return nullptr;
  if (writes && !writing.reserves) begin_writing(writing);
  const MemoryQosWriters writers{writing.reserves ? &*writing.reserves : nullptr,
                                 writing.high.get()};
  return std::make_shared<const MemoryQosReport>(
      observe_memory_qos(tree_, facts, writers, SystemClock().now()));
}

void MemoryQosThread::begin_writing(Writing& writing) {
  writing.reserves.emplace(tree_,
                           actuators::MemoryReserveWriter::Records{records_.min, records_.low});
  for (const std::string& each : writing.reserves->adopt(SystemClock().now())) log_problem(each);
  auto high = MemoryHighController::create(tree_, records_.high, log_);
  if (high) {
    writing.high = std::move(high).value();
  } else {
    log_problem("memory.high is not written: " + high.error().text());
  }
}

// What cannot be restored keeps its record; the next start tries again.
void MemoryQosThread::stop_writing(Writing& writing) {
  const auto now = SystemClock().now();
  const auto log_all = [this](const auto& writer) {
    for (const auto& [reserve, problem] : writer.not_restored()) {
      log_problem(reserve.path + "/" + to_string(reserve.file) + " not restored: " + problem);
    }
  };
  writing.reserves->apply({}, now);
  log_all(*writing.reserves);
  if (writing.high) {
    writing.high->apply({}, {}, now);
    log_all(*writing.high);
  }
  writing.high.reset();
  writing.reserves.reset();
}

// Until facts_ or stop_ change, or memory.high needs attention.
void MemoryQosThread::wait(const Writing& writing) const {
  actuators::wait_for_event(changed_.get(), writing.high ? writing.high->next_due() : std::nullopt,
                            writing.high ? writing.high->fd() : -1);
}

void MemoryQosThread::serve() {
  pthread_setname_np(pthread_self(), "forestall-qos");
  kernel::use_ordinary_priority();
  Writing writing;
  std::shared_ptr<const MemoryQosFacts> last;
  while (!has_to_stop()) {
    const auto facts = take_facts();
    if (facts) last = facts;
    const bool changed = writing.high && writing.high->advance(SystemClock().now());
    if (last && (facts || changed)) {
      auto next = carry_out(*last, writing);
      const std::lock_guard lock(mutex_);
      report_.swap(next);
    }
    wait(writing);
  }
  if (writing.reserves) stop_writing(writing);
}

}  // namespace forestall::agent
