// SPDX-License-Identifier: Apache-2.0
#include "kernel/file_probe.h"

#include <fcntl.h>
#include <fmt/format.h>

#include "kernel/held_file.h"
#include "kernel/memory_files.h"
#include "kernel/psi_trigger.h"
#include "kernel/usage_event.h"

namespace forestall::kernel {
namespace {

// More memory than any machine has, so the registered threshold never fires.
constexpr Bytes kNeverReached{std::int64_t{1} << 60};

bool is_refusal(const Error& failure) {
  return failure.code == EPERM || failure.code == EACCES || failure.code == EROFS;
}

FeatureReport failed(Feature feature, const Error& failure) {
  const auto state = is_refusal(failure) ? FeatureState::refused : FeatureState::absent;
  return {feature, state, failure.text()};
}

FeatureReport works(Feature feature, std::string evidence) {
  return {feature, FeatureState::in_use, std::move(evidence)};
}

FeatureReport probe_usage_eventfd(const CgroupTree& tree) {
  constexpr auto kFeature = Feature::usage_eventfd;
  if (tree.version() != CgroupVersion::v1) {
    return {kFeature, FeatureState::absent, "cgroup v2 has no cgroup.event_control"};
  }
  const auto register_one = [&]() -> Result<UniqueFd> {
    const auto root = TRY(tree.open("/"));
    const auto files = TRY(open_usage_event_files(root));
    return register_usage_event(files, kNeverReached);
  };
  const auto event = register_one();
  if (!event) return failed(kFeature, event.error());
  return works(kFeature, fmt::format("threshold on {}/memory.usage_in_bytes registered",
                                     tree.memory_mount()));
}

// The first group that has the file, breadth first. Either all groups have it or none, except below
// a group whose memory controller is off, so two levels are enough.
std::optional<CgroupDir> find_tunable(const CgroupTree& tree) {
  for (const char* glob : {"/*", "/*/*"}) {
    const auto paths = tree.match(glob);
    if (!paths) continue;
    for (const auto& path : *paths) {
      auto cgroup = tree.open(path);
      if (cgroup && cgroup->open_file("memory.high", O_RDONLY)) return std::move(cgroup).value();
    }
  }
  return std::nullopt;
}

FeatureReport probe_memory_high(const CgroupTree& tree) {
  constexpr auto kFeature = Feature::memory_high;
  if (tree.version() != CgroupVersion::v2) {
    return {kFeature, FeatureState::absent, "cgroup v1 has no memory.high"};
  }
  const auto cgroup = find_tunable(tree);
  if (!cgroup) {
    return {kFeature, FeatureState::absent,
            fmt::format("no cgroup in {} has the memory controller", tree.memory_mount())};
  }
  const auto high = cgroup->open_file("memory.high", O_RDWR);
  if (!high) return failed(kFeature, high.error());
  const auto events = cgroup->open_file("memory.events", O_RDONLY);
  if (!events) return failed(kFeature, events.error());
  return works(kFeature, fmt::format("{}/memory.high opened for writing", cgroup->path()));
}

FeatureReport probe_psi_trigger(const std::string& proc) {
  constexpr auto kFeature = Feature::psi_trigger;
  const auto path = proc + "/pressure/memory";
  const auto trigger =
      open_psi_trigger(AT_FDCWD, path.c_str(), path, std::chrono::milliseconds(50));
  if (!trigger) return failed(kFeature, trigger.error());
  const auto window = std::chrono::duration_cast<std::chrono::milliseconds>(trigger->window);
  return works(kFeature,
               fmt::format("{}: trigger with a window of {} ms accepted", path, window.count()));
}

FeatureReport probe_poll(const std::string& proc) {
  constexpr auto kFeature = Feature::poll;
  const auto path = proc + "/vmstat";
  const auto file = HeldFile::open(AT_FDCWD, path.c_str(), path);
  if (!file) return failed(kFeature, file.error());
  std::string buffer;
  const auto text = file->read(buffer);
  if (!text) return failed(kFeature, text.error());
  const auto vmstat = parse_vmstat(*text);
  if (!vmstat) return failed(kFeature, vmstat.error().in(path));
  if (!vmstat->nr_anon_pages || !vmstat->nr_file_pages || !vmstat->nr_inactive_file) {
    return {kFeature, FeatureState::absent, path + ": page counters are missing"};
  }
  return works(kFeature, path + " read");
}

}  // namespace

std::vector<FeatureReport> probe_file_features(const CgroupTree& tree, const FeatureSet& disabled,
                                               const std::string& proc) {
  std::vector<FeatureReport> reports;
  const auto probe = [&](Feature feature, const auto& attempt) {
    if (has(disabled, feature)) {
      reports.push_back({feature, FeatureState::forced_off, "--disable-feature"});
    } else {
      reports.push_back(attempt());
    }
  };
  probe(Feature::usage_eventfd, [&] { return probe_usage_eventfd(tree); });
  probe(Feature::memory_high, [&] { return probe_memory_high(tree); });
  probe(Feature::psi_trigger, [&] { return probe_psi_trigger(proc); });
  probe(Feature::poll, [&] { return probe_poll(proc); });
  return reports;
}

}  // namespace forestall::kernel
