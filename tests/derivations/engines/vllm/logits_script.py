"""Run requests on vLLM by its own public way, and print every logit that tokens were chosen from.

Usage: logits_script.py MODEL ARGUMENTS REQUESTS, the last two as JSON; no part of dis is used.
"""

import json
import os
import sys

os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"


def main() -> None:
    """Print a list with, for each request, its tokens and the logits of each step in order of token ids."""
    from vllm import LLM, SamplingParams  # type: ignore[import-not-found,unused-ignore]

    model, arguments, requests = sys.argv[1], json.loads(sys.argv[2]), json.loads(sys.argv[3])
    llm = LLM(model=model, **arguments, logprobs_mode="raw_logits", max_logprobs=-1)
    found = []
    for start in range(0, len(requests), arguments["max_num_seqs"]):
        group = requests[start : start + arguments["max_num_seqs"]]
        parameters = [
            SamplingParams(
                temperature=0, max_tokens=each["max_tokens"], logprobs=-1, ignore_eos=True,
                stop_token_ids=each["stop"], detokenize=False,
            )
            for each in group
        ]  # fmt: skip
        prompts = [{"prompt_token_ids": each["prompt"]} for each in group]
        for output in llm.generate(prompts, parameters, use_tqdm=False):
            completion = output.outputs[0]
            rows = [[step[token].logprob for token in sorted(step)] for step in completion.logprobs]
            found.append({"tokens": list(completion.token_ids), "rows": rows})
    sys.stdout.write("\n" + json.dumps(found) + "\n")


if __name__ == "__main__":
    main()
