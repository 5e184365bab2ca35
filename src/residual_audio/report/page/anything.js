// Ask for any text: the server answers as the packed words are answered, and the answer joins them.
live.ask = LIVE.has_text ? async (text) => {
  const asked = text.trim().slice(0, LIVE.limits?.text ?? 200);
  if (!asked || A.asking === asked) return;
  A.asking = asked;
  fill(A.answer, busy(`The model reads “${short(asked, 60)}” …`));
  try {
    const answer = await request("ask", { body: { text: asked } });
    if (A.asking !== asked) return;
    if (!askedAs(asked)) D.ask.texts.push({ ...answer, text: asked });
    A.shown = null;
    if (state.ask === asked) refresh(new Set(["ask"])); else set({ ask: asked });
  } catch (error) {
    if (A.asking === asked) fill(A.answer, trouble(error));
  } finally { if (A.asking === asked) A.asking = null; }
} : null;
