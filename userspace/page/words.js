// SPDX-License-Identifier: Apache-2.0
// Texts for the words of a picture.
'use strict';

const Words = (() => {
  const kKinds = {
    kill: { word: 'Killed', sign: '✕', worth: 3 },
    'would-kill': { word: 'Would have killed', sign: '?', worth: 2 },
    'kernel-oom': { word: 'Killed by the kernel', sign: '!', worth: 3 },
    reclaim: { word: 'Node-level reclaim', sign: '↻', worth: 1 },
    held: { word: 'No eviction', sign: '·', worth: 0 },
    calm: { word: 'No threshold met', sign: '·', worth: 0 },
  };
  const kReasons = {
    'no-data': 'no configured signal could be computed',
    'no-threshold-met': 'no threshold is met any more',
    'release-pending': 'memory being released will satisfy the threshold',
    'workloads-unread': 'the workloads must be read first',
    'no-candidates': 'no workload uses what is short',
    'all-protected': 'every candidate is protected, empty or already tried',
    'threshold-met': 'a threshold was met',
    'local-storage-limit': 'pods exceed a limit on local storage',
    'in-grace': 'only soft thresholds are met, within their grace period',
    'statistics-not-newer': 'the agent has already acted on these readings',
    'cleanup-pending': 'an earlier victim for this resource has not exited yet',
    'disk-usage-unread': 'the disk usage of pods must be read first',
    'node-reclaim': 'unused images and dead containers are removed first',
    'node-reclaim-sufficed': 'node-level reclaim left no threshold met',
    'own-limit-near': 'workloads are near their own limits',
    'guard-shot': 'the guard in the kernel killed the victim',
    ruleset: 'a ruleset fired',
    'pod-runs-again': 'a container of an evicted pod was started again',
    'kills-freed-little': 'the last victim freed less than half of its working set',
    'held-by-no-candidate': 'what kills freed is used outside of all candidates',
    'candidates-too-small': 'all remaining candidates hold less than is needed',
    'within-requests': 'every remaining candidate is within its request',
    'kill-limit-reached': 'killLimit allows no further kill in this period',
  };
  const kInaction = {
    'not-watched': 'no threshold covers what ran out',
    unread: 'its signal could not be computed',
    'below-threshold': 'the threshold was never met',
    'in-grace': 'a soft threshold was in its grace period',
    'dry-run': 'the agent decides but does not signal',
    'no-victim': 'the threshold was met, but no workload could be killed',
    'held-back': 'the threshold was met, but a further kill would not have helped',
    'too-fast': 'the threshold was crossed, but the kernel killed first',
    'warn-only': 'the threshold only warns or throttles',
    stopped: 'the agent did not run: stopped, frozen, hung, or without CPU',
    acting: 'a kill was in progress, its memory not yet released',
    ours: 'the kernel chose the process that the agent had already signalled',
  };
  const kStages = {
    wake: 'event → awake',
    observe: '→ read',
    decide: '→ decided',
    signal: '→ SIGKILL',
    exit: 'SIGKILL → exit',
    freed: 'SIGKILL → memory released',
  };

  return { kKinds, kReasons, kInaction, kStages };
})();
