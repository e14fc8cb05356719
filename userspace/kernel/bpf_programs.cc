// SPDX-License-Identifier: Apache-2.0
#include "kernel/bpf_programs.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <fcntl.h>
#include <sys/mman.h>

#include <forestall_bpf.skel.h>
#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <numeric>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "base/clock.h"
#include "kernel/bpf_counters.h"
#include "kernel/bpf_loader.h"
#include "kernel/bpf_run.h"
#include "kernel/held_file.h"
#include "kernel/memory_files.h"

namespace forestall::kernel {
namespace {

// Empties a hash.
void clear(const bpf_map* map) {
  std::array<char, sizeof(abi_open_stall)> key{};
  const int fd = bpf_map__fd(map);
  while (bpf_map_get_next_key(fd, nullptr, key.data()) == 0) bpf_map_delete_elem(fd, key.data());
}

constexpr const char* kMeminfo = "/proc/meminfo";
// Tries to find MemAvailable as the file shows it, while memory moves.
constexpr int kCompareTries = 10;
constexpr Bytes kAvailableSlack = mib(4);

// Tries to copy the readings of a slot while the timer may write them. It takes nanoseconds.
constexpr int kCopyTries = 8;

// A memory-mapped array with one Value for each slot.
template <typename Value>
class MappedSlots {
 public:
  static Result<MappedSlots> map(const bpf_map* map, int protection) {
    void* address = ::mmap(nullptr, kBytes, protection, MAP_SHARED, bpf_map__fd(map), 0);
    if (address == MAP_FAILED) return errno_error("mmap BPF map", bpf_map__name(map));
    return MappedSlots(static_cast<Value*>(address));
  }
  MappedSlots(MappedSlots&& other) noexcept : slots_(std::exchange(other.slots_, nullptr)) {}
  MappedSlots& operator=(MappedSlots&&) = delete;
  ~MappedSlots() {
    if (slots_ != nullptr) ::munmap(slots_, kBytes);
  }

  [[nodiscard]] Value* at(std::size_t slot) const { return &slots_[slot]; }

 private:
  static constexpr std::size_t kBytes = ABI_WATCH_SLOTS * sizeof(Value);
  explicit MappedSlots(Value* slots) : slots_(slots) {}
  Value* slots_;
};

// The array `watches`, which the programs share.
class MappedLines {
 public:
  static Result<MappedLines> map(const bpf_map* map) {
    return MappedLines(TRY(MappedSlots<abi_watch>::map(map, PROT_READ | PROT_WRITE)));
  }

  [[nodiscard]] __u64 line(std::size_t slot) const {
    return __atomic_load_n(&slots_.at(slot)->line, __ATOMIC_ACQUIRE);
  }
  void set(std::size_t slot, __u64 line) {
    __atomic_store_n(&slots_.at(slot)->line, line, __ATOMIC_RELEASE);
  }

 private:
  explicit MappedLines(MappedSlots<abi_watch> slots) : slots_(std::move(slots)) {}
  MappedSlots<abi_watch> slots_;
};

Result<Bytes> available_by_file(const HeldFile& file, std::string& buffer) {
  const std::string_view all = TRY(file.read(buffer));
  const Meminfo meminfo = TRY(parse_meminfo(all));
  if (!meminfo.available) return error("/proc/meminfo has none");
  return *meminfo.available;
}

// Nullopt: it is a cgroup.
std::optional<std::size_t> slot_of_node(CgroupId subject) {
  if (subject == CgroupId{}) return ABI_WATCH_NODE;
  if (subject == kNodeTaken) return ABI_WATCH_TAKEN;
  return std::nullopt;
}

// A copy that the timer did not write meanwhile; nullopt if it always did.
std::optional<abi_readings> copy_of(const abi_readings& shared) {
  constexpr std::size_t kWords = sizeof(abi_readings) / sizeof(__u64);
  const auto* from = reinterpret_cast<const __u64*>(&shared);
  for (int i = 0; i < kCopyTries; ++i) {
    const __u64 before = __atomic_load_n(&shared.sequence, __ATOMIC_ACQUIRE);
    std::array<__u64, kWords> words{};
    for (std::size_t k = 0; k < kWords; ++k) words[k] = __atomic_load_n(from + k, __ATOMIC_RELAXED);
    std::atomic_thread_fence(std::memory_order_acquire);
    const __u64 after = __atomic_load_n(&shared.sequence, __ATOMIC_RELAXED);
    if (before == after && before % 2 == 0) return std::bit_cast<abi_readings>(words);
  }
  return std::nullopt;
}

}  // namespace

class BpfPrograms::Loaded {
 public:
  explicit Loaded(LoadedBpf loaded)
      : skeleton(std::move(loaded.skeleton)), reports(std::move(loaded.reports)) {}

  // Maps, ring and the one-time search for the root memcg. REQUIRES: skeleton.
  Result<void> start();
  Result<std::vector<std::size_t>> watch(std::span<const BpfWatch> watches);
  Result<abi_stall> closed_stalls(std::uint64_t cgroup) const;
  Result<void> add_open_stalls(std::uint64_t cgroup, abi_stall& sum) const;

  Skeleton skeleton;
  std::vector<FeatureReport> reports;
  [[nodiscard]] abi_readings last_readings(CgroupId cgroup) const;
  // REQUIRES: available_found.
  Result<NodeTaken> node_taken();

  std::optional<MappedLines> lines;
  std::optional<MappedSlots<abi_readings>> readings;
  BpfRing ring;
  std::function<void(const abi_event&)> visitor;
  bool node_found = false;
  bool available_found = false;  // MemAvailable, by the programs

 private:
  // A subject that has a slot; those of the node are always the same.
  struct WatchSlot {
    CgroupId cgroup;
    std::size_t slot = 0;
    bool resolved = false;
  };

  void compare_available();
  [[nodiscard]] bool shows(CgroupId node) const;
  [[nodiscard]] bool same_subjects(std::span<const BpfWatch> watches) const;
  Result<void> take_subjects(std::span<const BpfWatch> watches);
  [[nodiscard]] bool resolve(const BpfWatch& watch, std::size_t slot) const;
  // Returns whether the subject is resolved and therefore armed.
  [[nodiscard]] bool arm(const BpfWatch& watch, WatchSlot& subject);
  Result<void> start_owed_timer();

  std::optional<HeldFile> meminfo_;
  std::string buffer_;
  std::vector<WatchSlot> subjects_;  // in the order of the watches they came from
  // A line was armed and the timer was not started yet. Kept over a failed call: the next call
  // finds the line in place and would not start the timer otherwise.
  bool timer_owed_ = false;
};

Result<void> BpfPrograms::Loaded::start() {
  lines.emplace(TRY(MappedLines::map(skeleton->maps.watches)));
  readings.emplace(TRY(MappedSlots<abi_readings>::map(skeleton->maps.readings, PROT_READ)));
  const auto visit = [](void* self, void* record, std::size_t size) {
    const auto& take = static_cast<Loaded*>(self)->visitor;
    if (size < sizeof(abi_event) || !take) return 0;
    const auto& event = *static_cast<const abi_event*>(record);
    // A short record would make abi_oom_kill_of() read past its end.
    if (event.kind == ABI_EVENT_oom_kill && size < sizeof(abi_oom_kill)) return 0;
    take(event);
    return 0;
  };
  ring.reset(ring_buffer__new(bpf_map__fd(skeleton->maps.ring), visit, this, nullptr));
  if (!ring) return errno_error("ring_buffer__new", "BPF map ring");
  const int found = TRY(run_program(skeleton->progs.setup));
  if (found == 1) return error("BPF setup: the root memory cgroup was not found");
  node_found = found == 0;
  if (node_found) compare_available();
  return {};
}

// Some kernels of virtual machines count memory of a balloon as available that no zone has.
void BpfPrograms::Loaded::compare_available() {
  const auto timer = std::ranges::find(reports, Feature::bpf_timer, &FeatureReport::feature);
  if (timer == reports.end() || timer->state != FeatureState::in_use) return;
  auto file = HeldFile::open(AT_FDCWD, kMeminfo, kMeminfo);
  if (!file.ok()) {
    timer->evidence += "; MemAvailable is polled: " + file.error().text();
    return;
  }
  meminfo_ = std::move(*file);
  Bytes apart{0};
  for (int i = 0; i < kCompareTries && !available_found; ++i) {
    const auto taken = node_taken();
    if (!taken.ok()) {
      timer->evidence += "; MemAvailable is polled: " + taken.error().text();
      return;
    }
    apart = taken->apart();
    available_found = apart <= kAvailableSlack;
  }
  timer->evidence += available_found ? "; it watches MemAvailable"
                                     : "; MemAvailable is polled: it differs by " +
                                           std::to_string(apart.count >> 20) +
                                           " MiB from the counters of the zones";
}

// The file last: what is taken in between brings a line that is placed by both nearer.
Result<NodeTaken> BpfPrograms::Loaded::node_taken() {
  abi_node_usage usage{};
  if (TRY(run_program(skeleton->progs.sample_node, usage)) != 0 ||
      usage.available == ABI_NOT_AVAILABLE) {
    return error("this kernel does not have all of its counters");
  }
  return NodeTaken{Bytes{static_cast<std::int64_t>(abi_node_taken(usage.available))},
                   TRY(available_by_file(*meminfo_, buffer_))};
}

bool BpfPrograms::Loaded::shows(CgroupId node) const {
  return node == kNodeTaken ? available_found : node_found;
}

bool BpfPrograms::Loaded::same_subjects(std::span<const BpfWatch> watches) const {
  return std::ranges::equal(watches, subjects_, {}, &BpfWatch::cgroup, &WatchSlot::cgroup);
}

// Resolves one cgroup into a slot. False: it has no memory cgroup, or descriptors or memory are
// short. Either way the other subjects keep their lines.
bool BpfPrograms::Loaded::resolve(const BpfWatch& watch, std::size_t slot) const {
  skeleton->bss->resolving_slot = static_cast<__u32>(slot);
  skeleton->bss->resolved_cgroup = 0;
  return run_cgroup_iterator(skeleton->progs.resolve_cgroup, watch.cgroup_fd).ok() &&
         skeleton->bss->resolved_cgroup == watch.cgroup.inode;
}

// Assigns all slots again. Runs only if the set of subjects changes. Nothing is armed meanwhile; a
// line that is crossed in between fires as soon as it is armed.
Result<void> BpfPrograms::Loaded::take_subjects(std::span<const BpfWatch> watches) {
  for (std::size_t slot = 0; slot < ABI_WATCH_SLOTS; ++slot) lines->set(slot, 0);
  clear(skeleton->maps.relations);
  clear(skeleton->maps.charged);
  subjects_.clear();
  std::size_t next = ABI_WATCH_CGROUPS;
  bool related = false;  // the node
  for (const BpfWatch& watch : watches) {
    if (const auto slot = slot_of_node(watch.cgroup)) {
      subjects_.push_back({watch.cgroup, *slot, shows(watch.cgroup)});
    } else {
      subjects_.push_back({watch.cgroup, next++, false});
      continue;
    }
    if (!node_found || std::exchange(related, true)) continue;
    const __u64 node = 0;
    abi_relation relation{};
    relation.slot = ABI_WATCH_NODE;
    relation.watched = 1;
    if (bpf_map__update_elem(skeleton->maps.relations, &node, sizeof(node), &relation,
                             sizeof(relation), BPF_ANY) != 0) {
      const Error failure = errno_error("bpf_map_update_elem", "relations");
      subjects_.clear();  // the set is incomplete: the next call assigns all slots again
      return failure;
    }
  }
  skeleton->bss->slot_count = static_cast<__u32>(std::min<std::size_t>(next, ABI_WATCH_SLOTS));
  return {};
}

bool BpfPrograms::Loaded::arm(const BpfWatch& watch, WatchSlot& subject) {
  if (!subject.resolved && subject.slot >= ABI_WATCH_CGROUPS && subject.slot < ABI_WATCH_SLOTS) {
    subject.resolved = resolve(watch, subject.slot);
  }
  if (!subject.resolved) return false;
  // 0 means disarmed in the kernel. Any usage is at or above a line of 0 or less, as of 1.
  const auto line = static_cast<__u64>(std::max<std::int64_t>(watch.usage_line.count, 1));
  if (lines->line(subject.slot) != line) {
    lines->set(subject.slot, line);
    timer_owed_ = true;
  }
  return true;
}

Result<void> BpfPrograms::Loaded::start_owed_timer() {
  if (!timer_owed_ || bpf_program__fd(skeleton->progs.start_timer) < 0) return {};
  const int failure = TRY(run_program(skeleton->progs.start_timer));
  if (failure != 0) return Error{-failure, "bpf_timer_start"};
  timer_owed_ = false;
  return {};
}

Result<std::vector<std::size_t>> BpfPrograms::Loaded::watch(std::span<const BpfWatch> watches) {
  if (!same_subjects(watches)) TRY(take_subjects(watches));
  // Arms the node before it resolves the others: resolving hundreds takes a while, and
  // take_subjects() has disarmed the node. A failure leaves the timer owed until the end.
  for (std::size_t i = 0; i < watches.size(); ++i) {
    if (subjects_[i].slot < ABI_WATCH_CGROUPS) static_cast<void>(arm(watches[i], subjects_[i]));
  }
  static_cast<void>(start_owed_timer());
  std::vector<std::size_t> unresolved;
  for (std::size_t i = 0; i < watches.size(); ++i) {
    // If the node's line fired meanwhile, its event is in the ring; the next call arms it again.
    const bool found = subjects_[i].slot < ABI_WATCH_CGROUPS ? subjects_[i].resolved
                                                             : arm(watches[i], subjects_[i]);
    if (!found) unresolved.push_back(i);
  }
  TRY(start_owed_timer());
  return unresolved;
}

abi_readings BpfPrograms::Loaded::last_readings(CgroupId cgroup) const {
  const auto subject = std::ranges::find(subjects_, cgroup, &WatchSlot::cgroup);
  if (subject == subjects_.end() || !subject->resolved) return {};
  // Of a previous subject of the slot until the timer has read this one.
  const auto copy = copy_of(*readings->at(subject->slot));
  return copy && copy->cgroup == cgroup.inode ? *copy : abi_readings{};
}

Result<abi_stall> BpfPrograms::Loaded::closed_stalls(std::uint64_t cgroup) const {
  const __u64 key = cgroup;
  auto sum = sum_over_cpus<abi_stall>(skeleton->maps.stalls, &key);
  if (!sum && sum.error().code == ENOENT) return abi_stall{};
  return sum;
}

Result<void> BpfPrograms::Loaded::add_open_stalls(std::uint64_t cgroup, abi_stall& sum) const {
  const int map = bpf_map__fd(skeleton->maps.open_stalls);
  const auto now = static_cast<__u64>(to_ns(SystemClock().now()));
  const abi_open_key* previous = nullptr;
  abi_open_key key{};
  // Bounded, because the kernel restarts the walk if the current key is deleted.
  for (std::uint32_t i = 0; i < bpf_map__max_entries(skeleton->maps.open_stalls); ++i) {
    abi_open_key next{};
    if (bpf_map_get_next_key(map, previous, &next) != 0) break;
    key = next;
    previous = &key;
    abi_open_stall open{};
    if (bpf_map_lookup_elem(map, &key, &open) != 0) continue;  // ended meanwhile
    const bool counts =
        cgroup == 0 || std::ranges::find(open.cgroups, cgroup) != std::ranges::end(open.cgroups);
    if (!counts || key.kind >= ABI_STALL_KINDS || open.begin_ns > now) continue;
    sum.sums[key.kind].ns += now - open.begin_ns;
    sum.sums[key.kind].count += 1;
  }
  return {};
}

BpfPrograms::BpfPrograms(std::unique_ptr<Loaded> loaded) : loaded_(std::move(loaded)) {}
BpfPrograms::~BpfPrograms() = default;

Result<std::unique_ptr<BpfPrograms>> BpfPrograms::load(const FeatureSet& disabled,
                                                       const KernelTypes& types) {
  auto loaded = std::make_unique<Loaded>(load_bpf(disabled, types));
  if (loaded->skeleton) TRY(loaded->start());
  return std::unique_ptr<BpfPrograms>(new BpfPrograms(std::move(loaded)));
}

const std::vector<FeatureReport>& BpfPrograms::reports() const {
  return loaded_->reports;
}

bool BpfPrograms::in_use(Feature feature) const {
  return std::ranges::any_of(loaded_->reports, [&](const FeatureReport& report) {
    return report.feature == feature && report.state == FeatureState::in_use;
  });
}

Result<std::vector<std::size_t>> BpfPrograms::watch(std::span<const BpfWatch> watches) {
  if (loaded_->skeleton) return loaded_->watch(watches);
  std::vector<std::size_t> all(watches.size());
  std::iota(all.begin(), all.end(), std::size_t{0});
  return all;
}

bool BpfPrograms::shows_available() const {
  return loaded_->skeleton && loaded_->available_found;
}

abi_readings BpfPrograms::last_readings(CgroupId cgroup) const {
  return loaded_->skeleton ? loaded_->last_readings(cgroup) : abi_readings{};
}

Result<NodeTaken> BpfPrograms::node_taken() {
  if (!shows_available()) return error("BPF does not compute MemAvailable");
  return loaded_->node_taken();
}

Result<abi_node_usage> BpfPrograms::node_usage() const {
  if (!loaded_->skeleton) return error("BPF is not in use");
  if (!loaded_->node_found) return error("BPF found no NUMA node");
  abi_node_usage usage{};
  const int failure = TRY(run_program(loaded_->skeleton->progs.sample_node, usage));
  if (failure != 0) return error("BPF found no NUMA node");
  return usage;
}

int BpfPrograms::ring_fd() const {
  return loaded_->ring ? ring_buffer__epoll_fd(loaded_->ring.get()) : -1;
}

void BpfPrograms::drain(const std::function<void(const abi_event&)>& visit) {
  if (!loaded_->ring) return;
  // Before the drain, so that a change during the drain emits another event.
  __atomic_store_n(&loaded_->skeleton->bss->change_reported, 0, __ATOMIC_RELEASE);
  loaded_->visitor = visit;
  ring_buffer__consume(loaded_->ring.get());
  loaded_->visitor = nullptr;
}

Result<abi_counters> BpfPrograms::counters() const {
  if (!loaded_->skeleton) return error("BPF is not in use");
  const __u32 key = 0;
  return sum_over_cpus<abi_counters>(loaded_->skeleton->maps.counters, &key);
}

Result<std::vector<BpfCounter>> BpfPrograms::counters_by_name() const {
  std::vector<BpfCounter> all;
  if (loaded_->skeleton) append_counters("agent", TRY(counters()), all);
  return all;
}

Result<abi_stall> BpfPrograms::stall(CgroupId cgroup) const {
  if (!loaded_->skeleton) return error("BPF is not in use");
  abi_stall sum = TRY(loaded_->closed_stalls(cgroup.inode));
  TRY(loaded_->add_open_stalls(cgroup.inode, sum));
  return sum;
}

}  // namespace forestall::kernel
