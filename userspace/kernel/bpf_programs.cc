// SPDX-License-Identifier: Apache-2.0
#include "kernel/bpf_programs.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <sys/mman.h>
#include <unistd.h>

#include <forestall_bpf.skel.h>
#include <algorithm>
#include <array>
#include <numeric>
#include <optional>
#include <unordered_map>

#include "base/clock.h"
#include "base/unique_fd.h"
#include "kernel/bpf_loader.h"
#include "kernel/bpf_log.h"

namespace forestall::kernel {
namespace {

// Runs a `syscall` program once; `argument` is copied in and out. The program's return value.
template <typename Argument>
Result<int> run(const bpf_program* program, Argument* argument) {
  LIBBPF_OPTS(bpf_test_run_opts, options);
  if (argument != nullptr) {
    options.ctx_in = argument;
    options.ctx_size_in = sizeof(Argument);
  }
  if (bpf_prog_test_run_opts(bpf_program__fd(program), &options) != 0) {
    return errno_error("BPF_PROG_TEST_RUN", bpf_program__name(program));
  }
  return static_cast<int>(options.retval);
}

Result<int> run(const bpf_program* program) {
  return run<char>(program, nullptr);
}

// Empties a hash.
void clear(const bpf_map* map) {
  std::array<char, sizeof(abi_open_stall)> key{};
  const int fd = bpf_map__fd(map);
  while (bpf_map_get_next_key(fd, nullptr, key.data()) == 0) bpf_map_delete_elem(fd, key.data());
}

// Adds the values of all CPUs, word by word: every per-CPU value of ours is made of __u64 sums.
template <typename Value>
void add_cpus(std::span<const Value> cpus, Value& sum) {
  constexpr std::size_t kWords = sizeof(Value) / sizeof(__u64);
  auto* words = reinterpret_cast<__u64*>(&sum);
  for (const Value& cpu : cpus) {
    const auto* from = reinterpret_cast<const __u64*>(&cpu);
    for (std::size_t i = 0; i < kWords; ++i) words[i] += from[i];
  }
}

// Lines as the programs see them: the memory-mapped array `watches`.
class MappedLines {
 public:
  static Result<MappedLines> map(int fd) {
    void* address = ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (address == MAP_FAILED) return errno_error("mmap", "BPF map watches");
    return MappedLines(static_cast<abi_watch*>(address));
  }
  MappedLines(MappedLines&& other) noexcept : slots_(std::exchange(other.slots_, nullptr)) {}
  MappedLines& operator=(MappedLines&&) = delete;
  ~MappedLines() {
    if (slots_ != nullptr) ::munmap(slots_, kBytes);
  }

  [[nodiscard]] __u64 line(std::size_t slot) const {
    return __atomic_load_n(&slots_[slot].line, __ATOMIC_ACQUIRE);
  }
  void set(std::size_t slot, __u64 line) {
    __atomic_store_n(&slots_[slot].line, line, __ATOMIC_RELEASE);
  }

 private:
  static constexpr std::size_t kBytes = ABI_WATCH_SLOTS * sizeof(abi_watch);
  explicit MappedLines(abi_watch* slots) : slots_(slots) {}
  abi_watch* slots_;
};

struct RingDeleter {
  void operator()(ring_buffer* ring) const { ring_buffer__free(ring); }
};

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
  std::optional<MappedLines> lines;
  std::unique_ptr<ring_buffer, RingDeleter> ring;
  std::function<void(const abi_event&)> visitor;
  bool node_found = false;

 private:
  // A subject that has a slot; the node is always slot 0.
  struct Subject {
    CgroupId cgroup;
    std::size_t slot = 0;
    bool resolved = false;
  };

  [[nodiscard]] bool same_subjects(std::span<const BpfWatch> watches) const;
  Result<void> take_subjects(std::span<const BpfWatch> watches);
  [[nodiscard]] bool resolve(const BpfWatch& watch, std::size_t slot) const;
  // Whether the subject is found (now), and therefore armed.
  [[nodiscard]] bool arm(const BpfWatch& watch, Subject& subject);
  Result<void> start_owed_timer();

  std::vector<Subject> subjects_;  // in the order of the watches they came from
  // A line was armed that the timer does not know of yet. Outlives a call that fails, because the
  // next one finds the line in place and would otherwise see no reason to start the timer.
  bool timer_owed_ = false;
};

Result<void> BpfPrograms::Loaded::start() {
  lines.emplace(TRY(MappedLines::map(bpf_map__fd(skeleton->maps.watches))));
  const auto visit = [](void* self, void* record, std::size_t size) {
    const auto& tell = static_cast<Loaded*>(self)->visitor;
    if (size < sizeof(abi_event) || !tell) return 0;
    const auto& event = *static_cast<const abi_event*>(record);
    // What the visitor may ask for has to be there.
    if (event.kind == ABI_EVENT_oom_kill && size < sizeof(abi_oom_kill)) return 0;
    tell(event);
    return 0;
  };
  ring.reset(ring_buffer__new(bpf_map__fd(skeleton->maps.ring), visit, this, nullptr));
  if (!ring) return errno_error("ring_buffer__new", "BPF map ring");
  const int found = TRY(run(skeleton->progs.setup));
  if (found == 1) return error("BPF setup: the root memory cgroup was not found");
  node_found = found == 0;
  return {};
}

bool BpfPrograms::Loaded::same_subjects(std::span<const BpfWatch> watches) const {
  return std::ranges::equal(watches, subjects_, {}, &BpfWatch::cgroup, &Subject::cgroup);
}

// Puts one cgroup into a slot; false when it has no memory cgroup (any more), or when descriptors
// or memory are short just now: whatever it is, it must not cost the other subjects their lines.
bool BpfPrograms::Loaded::resolve(const BpfWatch& watch, std::size_t slot) const {
  skeleton->bss->resolving_slot = static_cast<__u32>(slot);
  skeleton->bss->resolved_cgroup = 0;
  bpf_iter_link_info where{};
  where.cgroup.order = BPF_CGROUP_ITER_SELF_ONLY;
  where.cgroup.cgroup_fd = static_cast<__u32>(watch.cgroup_fd);
  LIBBPF_OPTS(bpf_iter_attach_opts, options);
  options.link_info = &where;
  options.link_info_len = sizeof(where);
  const BpfLog quiet;
  bpf_link* link = bpf_program__attach_iter(skeleton->progs.resolve_cgroup, &options);
  if (link == nullptr) return false;  // not a cgroup directory, or removed
  const UniqueFd walk(bpf_iter_create(bpf_link__fd(link)));
  bpf_link__destroy(link);
  if (!walk) return false;
  char nothing = 0;
  // The program writes no text: one read runs it to the end.
  if (::read(walk.get(), &nothing, 1) < 0) return false;
  return skeleton->bss->resolved_cgroup == watch.cgroup.inode;
}

// Gives every subject a slot anew. Only when the set changes, so simple beats clever: nothing is
// armed meanwhile, and a line crossed meanwhile fires as soon as it is armed.
Result<void> BpfPrograms::Loaded::take_subjects(std::span<const BpfWatch> watches) {
  for (std::size_t slot = 0; slot < ABI_WATCH_SLOTS; ++slot) lines->set(slot, 0);
  clear(skeleton->maps.relations);
  clear(skeleton->maps.charged);
  subjects_.clear();
  std::size_t next = ABI_WATCH_NODE + 1;
  for (const BpfWatch& watch : watches) {
    const bool is_node = watch.cgroup.inode == 0;
    subjects_.push_back({watch.cgroup, is_node ? ABI_WATCH_NODE : next, is_node && node_found});
    if (!is_node) ++next;
    if (!is_node || !node_found) continue;
    const __u64 node = 0;
    abi_relation relation{};
    relation.slot = ABI_WATCH_NODE;
    relation.watched = 1;
    if (bpf_map__update_elem(skeleton->maps.relations, &node, sizeof(node), &relation,
                             sizeof(relation), BPF_ANY) != 0) {
      const Error failure = errno_error("bpf_map_update_elem", "relations");
      subjects_.clear();  // so that the next call does not take this half for the whole
      return failure;
    }
  }
  skeleton->bss->slot_count = static_cast<__u32>(std::min<std::size_t>(next, ABI_WATCH_SLOTS));
  return {};
}

bool BpfPrograms::Loaded::arm(const BpfWatch& watch, Subject& subject) {
  if (!subject.resolved && subject.slot != ABI_WATCH_NODE && subject.slot < ABI_WATCH_SLOTS) {
    subject.resolved = resolve(watch, subject.slot);
  }
  if (!subject.resolved) return false;
  // 0 means disarmed in the kernel; a line at or below 0 is met by any usage, as is 1.
  const auto line = static_cast<__u64>(std::max<std::int64_t>(watch.usage_line.count, 1));
  if (lines->line(subject.slot) != line) {
    lines->set(subject.slot, line);
    timer_owed_ = true;
  }
  return true;
}

Result<void> BpfPrograms::Loaded::start_owed_timer() {
  if (!timer_owed_ || bpf_program__fd(skeleton->progs.start_timer) < 0) return {};
  const int failure = TRY(run(skeleton->progs.start_timer));
  if (failure != 0) return Error{-failure, "bpf_timer_start"};
  timer_owed_ = false;
  return {};
}

Result<std::vector<std::size_t>> BpfPrograms::Loaded::watch(std::span<const BpfWatch> watches) {
  if (!same_subjects(watches)) TRY(take_subjects(watches));
  // The node first, running before the others are looked up: hundreds of them take a while, and
  // taking subjects has disarmed it. A failure here leaves the timer owed, for the end.
  for (std::size_t i = 0; i < watches.size(); ++i) {
    if (subjects_[i].slot == ABI_WATCH_NODE) static_cast<void>(arm(watches[i], subjects_[i]));
  }
  static_cast<void>(start_owed_timer());
  std::vector<std::size_t> unresolved;
  for (std::size_t i = 0; i < watches.size(); ++i) {
    // A node line that has fired meanwhile was met once and is told: arming it again is for the
    // next call.
    const bool found =
        subjects_[i].slot == ABI_WATCH_NODE ? subjects_[i].resolved : arm(watches[i], subjects_[i]);
    if (!found) unresolved.push_back(i);
  }
  TRY(start_owed_timer());
  return unresolved;
}

Result<abi_stall> BpfPrograms::Loaded::closed_stalls(std::uint64_t cgroup) const {
  std::vector<abi_stall> cpus(static_cast<std::size_t>(libbpf_num_possible_cpus()));
  abi_stall sum{};
  const __u64 key = cgroup;
  if (bpf_map__lookup_elem(skeleton->maps.stalls, &key, sizeof(key), cpus.data(),
                           cpus.size() * sizeof(abi_stall), 0) != 0) {
    if (errno != ENOENT) return errno_error("bpf_map_lookup_elem", "stalls");
    return sum;
  }
  add_cpus<abi_stall>(cpus, sum);
  return sum;
}

Result<void> BpfPrograms::Loaded::add_open_stalls(std::uint64_t cgroup, abi_stall& sum) const {
  const int map = bpf_map__fd(skeleton->maps.open_stalls);
  const auto now = static_cast<__u64>(to_ns(SystemClock().now()));
  const abi_open_key* previous = nullptr;
  abi_open_key key{};
  // Bounded, because a key deleted under us makes the kernel start over.
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

Result<std::unique_ptr<BpfPrograms>> BpfPrograms::load(const FeatureSet& disabled) {
  auto loaded = std::make_unique<Loaded>(load_bpf(disabled));
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

Result<abi_node_usage> BpfPrograms::node_usage() const {
  if (!loaded_->skeleton) return error("BPF is not in use");
  if (!loaded_->node_found) return error("BPF found no NUMA node");
  abi_node_usage usage{};
  const int failure = TRY(run(loaded_->skeleton->progs.sample_node, &usage));
  if (failure != 0) return error("BPF found no NUMA node");
  return usage;
}

int BpfPrograms::ring_fd() const {
  return loaded_->ring ? ring_buffer__epoll_fd(loaded_->ring.get()) : -1;
}

void BpfPrograms::drain(const std::function<void(const abi_event&)>& visit) {
  if (!loaded_->ring) return;
  // Before reading: a change that comes while we look must be told again.
  __atomic_store_n(&loaded_->skeleton->bss->change_told, 0, __ATOMIC_RELEASE);
  loaded_->visitor = visit;
  ring_buffer__consume(loaded_->ring.get());
  loaded_->visitor = nullptr;
}

Result<abi_counters> BpfPrograms::counters() const {
  if (!loaded_->skeleton) return error("BPF is not in use");
  std::vector<abi_counters> cpus(static_cast<std::size_t>(libbpf_num_possible_cpus()));
  const __u32 key = 0;
  if (bpf_map__lookup_elem(loaded_->skeleton->maps.counters, &key, sizeof(key), cpus.data(),
                           cpus.size() * sizeof(abi_counters), 0) != 0) {
    return errno_error("bpf_map_lookup_elem", "counters");
  }
  abi_counters sum{};
  add_cpus<abi_counters>(cpus, sum);
  return sum;
}

Result<abi_stall> BpfPrograms::stall(CgroupId cgroup) const {
  if (!loaded_->skeleton) return error("BPF is not in use");
  abi_stall sum = TRY(loaded_->closed_stalls(cgroup.inode));
  TRY(loaded_->add_open_stalls(cgroup.inode, sum));
  return sum;
}

}  // namespace forestall::kernel
