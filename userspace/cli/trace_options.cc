// SPDX-License-Identifier: Apache-2.0
#include "cli/trace_options.h"

#include <CLI/CLI.hpp>

namespace forestall::cli {

void add_trace_options(CLI::App& command, Options& options, TraceOptions& trace) {
  command.add_option("--cgroup", trace.cgroups,
                     "Only cgroups that match this glob of their paths in the memory hierarchy, "
                     "and what lies below them; may be given more than once");
  command.add_option("--pod", trace.pods,
                     "Only this pod, by its UID or by a name that the configuration knows; may be "
                     "given more than once");
  command.add_option("--kind", trace.kinds,
                     "Only these kinds of events, a list: memcg-reclaim, direct-reclaim, kswapd, "
                     "stall, compaction, throttled, oom, pressure, usage, reclaim-count, agent, "
                     "cgroup; reclaim for the first three, or all");
  command.add_option("--min", trace.shortest, "Only what lasted at least this long, like 1ms");
  command.add_flag("--begins", trace.begins, "Also tell when something begins to last");
  command.add_option("--summary", trace.summary,
                     "Instead of events, sums and histograms of every window of this length, "
                     "like 1s");
  command.add_option("--top", trace.top, "How many cgroups a summary tells of (10)");
  command.add_option("--duration", trace.duration, "End after this time, like 30s");
  command.add_option("--count", trace.count, "End after so many events");
  command.add_option("--buffer", trace.buffer,
                     "Size of the ring that the kernel writes to, like 64Mi (16Mi)");
  command.add_option("--color", trace.color, "auto, always or never")
      ->option_text("auto|always|never");
  command
      .add_option("-o,--output", trace.format,
                  "Output for people, a JSON object a line, or protobuf messages "
                  "(forestall.v1.Event), each behind its length")
      ->option_text("text|json|pb");
  command.add_flag("--no-agent", trace.without_agent, "Do not ask a running agent");
  command.add_option("--run-dir", options.run_directory,
                     "The agent's, where it listens at forestall.sock");
  command.add_option("--socket", options.socket,
                     "Where the agent serves gRPC (apiSocket), if that is elsewhere");
}

}  // namespace forestall::cli
